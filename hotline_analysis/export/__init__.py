"""Traces for other tools."""

from hotline_analysis.export.perfetto import export_perfetto

__all__ = ["export_perfetto"]
