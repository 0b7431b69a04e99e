"""Capture: the trace handler, the model-op table, and regions of the user's own. Only this part imports torch.

It imports it when something is captured, so that naming these functions needs no torch.
"""

from hotline_analysis.capture.handler import TraceHandler, analyze
from hotline_analysis.capture.learn import model_ops
from hotline_analysis.capture.region import annotate
from hotline_analysis.capture.table import ModelOps

__all__ = ["ModelOps", "TraceHandler", "analyze", "annotate", "model_ops"]
