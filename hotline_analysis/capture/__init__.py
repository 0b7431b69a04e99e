"""Capture of traces: the trace handler, the model-op table, and user-defined regions. Only this package imports torch.

Torch is imported on the first capture, so importing these names works without torch.
"""

from hotline_analysis.capture.handler import TraceHandler, analyze
from hotline_analysis.capture.learn import model_ops
from hotline_analysis.capture.ranges import ModuleRanges, nvtx
from hotline_analysis.capture.region import annotate
from hotline_analysis.capture.table import ModelOps

__all__ = ["ModelOps", "ModuleRanges", "TraceHandler", "analyze", "annotate", "model_ops", "nvtx"]
