"""The standard report on where a trace's time goes, for people and for programs."""

from hotline_analysis.reports.build import report
from hotline_analysis.reports.content import Section
from hotline_analysis.reports.diff import diff_report
from hotline_analysis.reports.document import Report

__all__ = ["Report", "Section", "diff_report", "report"]
