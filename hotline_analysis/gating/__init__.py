"""Regression gate: compare new runs of a program with baseline runs, given the noise between runs."""

from hotline_analysis.gating.baseline import read_baseline, write_baseline
from hotline_analysis.gating.checks import Check
from hotline_analysis.gating.measure import Measured, measure
from hotline_analysis.gating.verdict import Verdict, gate

__all__ = ["Check", "Measured", "Verdict", "gate", "measure", "read_baseline", "write_baseline"]
