"""Open a run, or import trace files to a run directory.

The modules are imported on first use: to open a stored run takes none of those that read traces.
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    globals()[name] = value = _load(name)
    return value
