"""Answers to questions about a trace: answers that are a single query, and answers with Python code.

The public names are listed in `__init__.pyi` and loaded on first use.
"""

from types import FunctionType

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    value = _load(name)
    if isinstance(value, FunctionType):
        from hotline_analysis.run.arguments import takes_traces

        value = takes_traces(value)
    globals()[name] = value
    return value
