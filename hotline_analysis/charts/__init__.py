"""Charts: answers → Altair charts, and a timeline page that opens level by level.

Most functions have the name of an answer. They take the frame of the answer, or a trace with the answer's parameters:
`charts.phases(trace, rank=0)`. `timeline` and `overview` take a trace, and `stragglers` takes the frame of
`collectives`. `draw` draws a chart by name, and `save` writes a chart to a file. The public names are listed in
`__init__.pyi` and loaded on first use.
"""

from types import FunctionType

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    value = _load(name)
    if isinstance(value, FunctionType):
        from hotline_analysis.charts.either import of_frame_or_trace

        value = of_frame_or_trace(value)
    globals()[name] = value
    return value
