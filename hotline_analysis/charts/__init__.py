"""Charts: frames → Altair charts, and the timeline that a page of its own can open level by level.

A function has the name of an answer and takes the frame that the answer returns. `timeline` and `overview` take
the trace itself, and `stragglers` the frame of `collectives`. `draw` draws any of them by name, `save` writes it.
The names stand in `__init__.pyi`, and are loaded when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
