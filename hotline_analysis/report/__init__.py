"""The canned report: what the trace says about where the time goes, for people and for programs."""

from hotline_analysis.report.build import report
from hotline_analysis.report.diff import diff_report
from hotline_analysis.report.model import Report, Section

__all__ = ["Report", "Section", "diff_report", "report"]
