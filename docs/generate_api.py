"""Write the stubs of the package: signatures of the single-query answers, and the lists of public names.

`hotline_analysis/answers/generated.pyi` has a signature for each query of `queries/answers`, for editors and type
checkers. `hotline_analysis/__init__.pyi` lists everything public. Both are written from the headers, so a new answer
only needs an SQL file.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path

import hotline_analysis
from hotline_analysis import catalog
from hotline_analysis.answers import single
from hotline_analysis.catalog import Query

CHARTS = Path(__file__).parents[1] / "hotline_analysis" / "charts"
_NO_CHARTS = ("either", "forms", "page", "parts", "places", "registry", "saving", "step_picture", "theme")
NOTE = "# Written by `make docs` from {source}: change that, and run it again."

MODULES = ("answers", "charts", "memory", "predict")
"""Modules among the public names."""

# Public names by module. A new answer that is a query needs no entry.
PUBLIC: Mapping[str, Sequence[str]] = {
    "answers.balance": ("gpu_balance",),
    "answers.bottleneck": ("gpu_or_cpu_bound", "optimizer_bottleneck"),
    "answers.efficiency": ("gpu_efficiency", "tensor_core_use"),
    "answers.comparison": ("diff",),
    "answers.dependencies": ("DependencyGraph",),
    "answers.detail": ("detail_size",),
    "answers.finding": ("Finding",),
    "answers.limits": ("step_limits",),
    "answers.path": ("critical_path", "critical_path_breakdown", "dependency_graph"),
    "answers.patterns": ("frequent_kernel_patterns",),
    "answers.places": ("slowest_places",),
    "answers.rules": ("Advice", "advice"),
    "answers.storage": ("encodings_total",),
    "capture": ("ModelOps", "analyze", "annotate", "model_ops", "nvtx"),
    "demo": ("demo_trace",),
    "errors": (
        "EmptyTraceError",
        "ExportExistsError",
        "HotlineError",
        "HotlineWarning",
        "MachineError",
        "ModelMismatchError",
        "QueryNotFoundError",
        "QueryParameterError",
        "RunFormatError",
        "TraceFormatError",
    ),
    "export": ("append_run", "dashboard", "export_perfetto", "export_tables"),
    "gating": ("Check", "Measured", "Verdict", "gate", "measure", "read_baseline", "write_baseline"),
    "importer": ("import_traces", "load", "store_run"),
    "prediction.studies.all_gpus": ("on_gpu",),
    "prediction.asked": ("whatif",),
    "prediction.studies.scaling": ("bucket_sizes", "data_parallel_scaling"),
    "prediction.studies.sharing": ("share_gpu",),
    "prediction.studies.backward": ("backward_chain",),
    "prediction.studies.batch": ("BatchScaling", "batch_scaling"),
    "prediction.studies.checkpoint": ("recomputation",),
    "prediction.engine.edits": ("Fuse", "Gap", "Insert", "Move", "Remove", "Scale", "Take", "Unwait"),
    "prediction.engine.predict": ("Prediction", "Scenario"),
    "reports": ("Report", "diff_report", "report"),
    "run.trace": ("Trace",),
}


def generated_stub() -> str:
    """The text of `answers/generated.pyi`: the signature of each function, and the query's summary."""
    queries = catalog.queries("answers")
    lines = [
        NOTE.format(source="the headers of queries/answers"),
        "",
        "from typing import Literal",
        "",
        "import polars as pl",
        "",
        "from hotline_analysis.run.trace import Trace",
        f"from hotline_analysis.vocabulary import {', '.join(sorted(set().union(*map(single.types_of, queries))))}",
    ]
    for query in queries:
        lines += ["", *_declaration(query)]
    return "\n".join(lines) + "\n"


def _declaration(query: Query) -> Iterator[str]:
    signature = single.signature_of(query)
    yield f"def {query.name}("
    has_star = False
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not has_star:
            yield "    *,"
            has_star = True
        yield f"    {parameter.name}: {parameter.annotation}{_default(parameter)},"
    yield f") -> {signature.return_annotation}:"
    yield textwrap.indent(f'"""{single.filled(query.summary)}"""', "    ")


def _default(parameter: Parameter) -> str:
    if parameter.default is Parameter.empty:
        return ""
    return f' = "{parameter.default}"' if isinstance(parameter.default, str) else f" = {parameter.default!r}"


def chart_names() -> dict[str, list[str]]:
    """Public names of `hotline_analysis.charts` by file: functions whose first argument is a `frame` or `trace`."""
    found = {"registry": ["CHARTS", "draw"], "saving": ["save"]}
    for file in sorted(CHARTS.glob("*.py")):
        functions = [node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
        names = [
            function.name
            for function in functions
            if not function.name.startswith("_")
            and file.stem not in _NO_CHARTS
            and [argument.arg for argument in function.args.args][:1] in (["frame"], ["trace"], ["traces"])
        ]
        if names:
            found[file.stem] = sorted(names)
    found["multi_scale"].insert(0, "Timeline")
    return dict(sorted(found.items()))


def charts_stub() -> str:
    """The text of `hotline_analysis/charts/__init__.pyi`."""
    return _stub(NOTE.format(source="the functions in hotline_analysis/charts"), chart_names(), ())


def public_names() -> dict[str, Sequence[str]]:
    """All public names by module, below the package."""
    found = {**PUBLIC, "answers.generated": tuple(query.name for query in catalog.queries("answers"))}
    return dict(sorted(found.items()))


def stub() -> str:
    """The text of `hotline_analysis/__init__.pyi`: everything public, and in `__all__` the names that people need."""
    note = NOTE.format(source="its list and the headers of queries/answers")
    modules = [f"from . import {name} as {name}" for name in MODULES]
    return _stub(note, public_names(), (*modules, "__version__: str"), hotline_analysis.__all__)


def answers_stub() -> str:
    """The text of `hotline_analysis/answers/__init__.pyi`."""
    names = {
        module.removeprefix("answers."): each
        for module, each in public_names().items()
        if module.startswith("answers.")
    }
    return _stub(NOTE.format(source="its list and the headers of queries/answers"), names, ())


def _stub(
    note: str, names: Mapping[str, Sequence[str]], more: Sequence[str], shown: Sequence[str] | None = None
) -> str:
    """A stub with these names by module; `shown` are the names in `__all__`, all by default."""
    lines = [note, "", *(line for line in more if line.startswith("from"))]
    for module, each in names.items():
        lines += [f"from .{module} import ("]
        lines += [f"    {name} as {name}," for name in sorted(each, key=lambda name: (name.lower(), name))]
        lines += [")"]
    declared = [line for line in more if not line.startswith("from")]
    lines += ["", *declared, *([""] if declared else [])]
    every = [name for each in names.values() for name in each] + [
        line.rpartition(" ")[2] for line in more if line.startswith("from")
    ]
    every += [line.partition(":")[0] for line in declared]
    lines += ["__all__ = [", *(f'    "{name}",' for name in sorted(every if shown is None else shown)), "]"]
    return "\n".join(lines) + "\n"
