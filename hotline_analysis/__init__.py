"""Annotate PyTorch profiler traces and find what makes training slow.

    import hotline_analysis as ha

    trace = ha.load("traces/")
    print(ha.report(trace))

The public names stand in `__init__.pyi`, and are loaded when they are first used, so that importing the package costs
next to nothing.
"""

from types import FunctionType

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("hotline-analysis")
    else:
        value = _load(name)
        if isinstance(value, FunctionType):
            from hotline_analysis.run.arguments import takes_traces

            value = takes_traces(value)
    globals()[name] = value
    return value
