"""Answers on memory: who holds it, how fast it is copied, and which modules could be computed again."""

from hotline_analysis.answers.generated import (
    encodings,
    memory_bandwidth,
    memory_bandwidth_summary,
    memory_breakdown,
    memory_peak,
    memory_timeline,
    recompute,
    recompute_groups,
)
from hotline_analysis.answers.storage import encodings_total
from hotline_analysis.prediction.studies.checkpoint import recomputation

__all__ = [
    "encodings",
    "encodings_total",
    "memory_bandwidth",
    "memory_bandwidth_summary",
    "memory_breakdown",
    "memory_peak",
    "memory_timeline",
    "recomputation",
    "recompute",
    "recompute_groups",
]
