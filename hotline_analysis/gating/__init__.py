"""Whether a program has become slower: runs of it against runs of before, with the noise between runs."""

from hotline_analysis.gating.baseline import read_baseline, write_baseline
from hotline_analysis.gating.measure import Measured, measure
from hotline_analysis.gating.verdict import Check, Verdict, gate

__all__ = ["Check", "Measured", "Verdict", "gate", "measure", "read_baseline", "write_baseline"]
