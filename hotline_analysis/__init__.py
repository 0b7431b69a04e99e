"""Annotate PyTorch profiler traces and find what makes training slow."""
from hotline_analysis.importer import import_traces, load
from hotline_analysis.trace import Trace
__all__=["Trace","import_traces","load"]
