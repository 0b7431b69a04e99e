"""Export of runs: traces for viewers, tables for dashboards, and a dashboard."""

from hotline_analysis.export.fleet import dashboard
from hotline_analysis.export.parquet import append_run, export_tables
from hotline_analysis.export.perfetto import export_perfetto

__all__ = ["append_run", "dashboard", "export_perfetto", "export_tables"]
