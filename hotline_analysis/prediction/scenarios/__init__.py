"""The scenarios that come with the package, by subject: each makes edits of a loop, or says why it does not apply."""

from hotline_analysis.prediction.scenarios import host, kernels, launches, machine, memory, ranks  # noqa: F401
from hotline_analysis.prediction.scenarios.known import KNOWN, Given, Made, scenario

__all__ = ["KNOWN", "Given", "Made", "scenario"]
