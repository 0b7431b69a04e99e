"""Write the Python functions of the answers that are one query each, and the list of the package's public names.

`hotline_analysis/answers/generated.py` has a function for each query of `queries/answers`, with the types that editors
and type checkers need; `hotline_analysis/__init__.pyi` names everything public. Both come from the headers, so that a
new answer is one SQL file.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hotline_analysis import catalog
from hotline_analysis.catalog import Param, Query
from hotline_analysis.vocabulary import WORDS

CHARTS = Path(__file__).parents[1] / "hotline_analysis" / "charts"
_NO_CHARTS = ("page", "parts", "places", "registry", "saving", "theme")
WIDTH = 120
NOTE = "# Written by `make docs` from {source}: change that, and run it again."
_HINTS = {"BIGINT": "int", "DOUBLE": "float", "BOOLEAN": "bool", "VARCHAR": "str"}
_ALIASES = {words: "".join(part.title() for part in name.split("_")) for name, words in WORDS.items()}
_COUNT = "limit"  # the one argument that may be given without its name

# Public names by module; a new answer that is a query needs no entry.
PUBLIC: Mapping[str, Sequence[str]] = {
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
    "capture": ("ModelOps", "analyze", "annotate", "model_ops"),
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
    "prediction.all_gpus": ("on_gpu",),
    "prediction.asked": ("whatif",),
    "prediction.scaling": ("bucket_sizes", "data_parallel_scaling"),
    "prediction.sharing": ("share_gpu",),
    "prediction.backward": ("backward_chain",),
    "prediction.batch": ("BatchScaling", "batch_scaling"),
    "prediction.checkpoint": ("recomputation",),
    "prediction.edits": ("Fuse", "Gap", "Insert", "Move", "Remove", "Scale", "Take", "Unwait"),
    "prediction.predict": ("Prediction", "Scenario"),
    "reports": ("Report", "diff_report", "report"),
    "run.trace": ("Trace",),
}


def answers_module() -> str:
    """The text of `answers/generated.py`."""
    queries = catalog.queries("answers")
    words = sorted({_ALIASES[param.words] for query in queries for param in query.params if param.words in _ALIASES})
    lines = [
        '"""The answers that are one query each: a function for each, with the query\'s parameters."""',
        "",
        NOTE.format(source="the headers of queries/answers"),
        "",
        "from __future__ import annotations",
        "",
        "from typing import Literal",
        "",
        "import polars as pl",
        "",
        "from hotline_analysis.run.trace import Trace",
        f"from hotline_analysis.vocabulary import {', '.join(words)}",
    ]
    for query in queries:
        lines += ["", "", *_function(query)]
    return "\n".join(lines) + "\n"


def _function(query: Query) -> Iterator[str]:
    params = sorted(query.params, key=lambda param: (param.name != _COUNT, not param.required))
    yield f"def {query.name}("
    yield "    trace: Trace,"
    first = [param for param in params if param.name == _COUNT]
    rest = [param for param in params if param.name != _COUNT]
    yield from (f"    {_declared(param)}," for param in first)
    if rest:
        yield "    *,"
        yield from (f"    {_declared(param)}," for param in rest)
    yield ") -> pl.DataFrame:"
    yield from _docstring(query, [*first, *rest])
    yield "    return trace.query("
    yield f'        "{query.name}",'
    yield from (f"        {param.name}={param.name}," for param in query.params)
    yield "    )"


def _declared(param: Param) -> str:
    hint = _ALIASES.get(param.words) or (
        f"Literal[{', '.join(repr(word) for word in param.words)}]" if param.words else _HINTS[param.type]
    )
    hint = hint.replace("'", '"')
    if param.or_null or (not param.required and param.default is None):
        hint += " | None"
    if param.required:
        return f"{param.name}: {hint}"
    default = f'"{param.default}"' if isinstance(param.default, str) else repr(param.default)
    return f"{param.name}: {hint} = {default}"


def _docstring(query: Query, params: Sequence[Param]) -> Iterator[str]:
    paragraphs = [query.summary, *query.description.split("\n\n")] if query.description else [query.summary]
    columns = ", ".join(f"`{column.name}`" for column in query.columns)
    text = "\n\n".join(
        [
            *(
                "\n".join(_filled(line, "  " if line.startswith("- ") else "") for line in paragraph.splitlines())
                for paragraph in paragraphs
            ),
            "\n".join(_filled(f"* `{param.name}`: {param.description}", "  ") for param in params),
            _filled(f"Columns: {columns}. `hotline queries {query.name}` says what each means."),
        ]
    )
    yield textwrap.indent(f'"""{text}\n"""', "    ")


def _filled(text: str, hang: str = "") -> str:
    lines = textwrap.wrap(text, WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return f"\n{hang}".join(lines)


def chart_names() -> dict[str, list[str]]:
    """The public names of `hotline_analysis.charts` by its files: charts take a `frame` or a `trace`."""
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
    """Everything public by module, below the package."""
    found = {**PUBLIC, "answers.generated": tuple(query.name for query in catalog.queries("answers"))}
    return dict(sorted(found.items()))


def stub() -> str:
    """The text of `hotline_analysis/__init__.pyi`."""
    note = NOTE.format(source="its list and the headers of queries/answers")
    return _stub(note, public_names(), ("from . import charts as charts", "__version__: str"))


def _stub(note: str, names: Mapping[str, Sequence[str]], more: Sequence[str]) -> str:
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
    lines += ["__all__ = [", *(f'    "{name}",' for name in sorted(every)), "]"]
    return "\n".join(lines) + "\n"
