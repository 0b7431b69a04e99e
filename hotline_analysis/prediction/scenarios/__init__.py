"""The packaged scenarios, by subject. Each makes edits of a loop, or returns the reason for not applying."""

from hotline_analysis.prediction.scenarios import host, kernels, launches, machine, memory, ranks  # noqa: F401
from hotline_analysis.prediction.scenarios.known import KNOWN, Given, Made, scenario

__all__ = ["KNOWN", "Given", "Made", "scenario"]
