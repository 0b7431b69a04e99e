"""Annotate PyTorch profiler traces and find what makes training slow.

    import hotline_analysis as ha

    trace = ha.load("traces/")
    print(ha.report(trace))

`ha.__all__` and `dir(ha)` list the most used names. The other answers are in `ha.answers`, predictions in
`ha.predict`, charts in `ha.charts` and the answers on memory in `ha.memory`. As in earlier versions, all public names
of these modules are also attributes of `ha`.

The public names are listed in `__init__.pyi` and loaded on first use, so importing the package is fast.
"""

from types import FunctionType

import lazy_loader

_load, *_ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "HotlineError",
    "Trace",
    "__version__",
    "advice",
    "analyze",
    "annotate",
    "answers",
    "charts",
    "demo_trace",
    "device_use",
    "diff",
    "gate",
    "gpu_or_cpu_bound",
    "import_traces",
    "load",
    "memory",
    "optimizer_bottleneck",
    "phases",
    "predict",
    "report",
    "slowest_kernels",
    "slowest_modules",
    "slowest_ops",
    "slowest_places",
    "steps",
    "whatif",
]


def __dir__() -> list[str]:
    return sorted(__all__)


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
