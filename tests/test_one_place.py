"""Each decision stands in one place: a statement or a function that decides again makes a test fail."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest

from hotline_analysis.database import install_macros
from hotline_analysis.prediction.scenarios.known import PAGEABLE, TO_GPU

ROOT = Path(__file__).parents[1]
SQL_TEXT = re.compile(r"--[^\n]*|'((?:[^']|'')*)'")


def texts(file: Path) -> Iterator[str]:
    """The texts of a file without its comments and docstrings."""
    content = file.read_text(encoding="utf-8")
    if file.suffix == ".sql":
        yield from (match[1] for match in SQL_TEXT.finditer(content) if match[1])
        return
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        # A text at the start of a statement is a docstring.
        if token.type == tokenize.STRING and before not in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield token.string
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type


FILES = {
    file.relative_to(ROOT).as_posix(): [*texts(file)]
    for folder in ("queries", "hotline_analysis")
    for file in sorted([*(ROOT / folder).rglob("*.sql"), *(ROOT / folder).rglob("*.py")])
}


@pytest.mark.parametrize(
    ("sign", "places"),
    [
        pytest.param(
            r"(?:site|dist)\)?-packages",
            # The sampler runs without a database. `test_sample.py` compares both.
            {"queries/macros/code.sql", "hotline_analysis/capture/sample.py"},
            id="origin of a file",
        ),
        pytest.param(
            r"(?i)half.*short|(?:double|float64)\|.*(?:int64|long)",
            {"queries/macros/work.sql"},
            id="bytes of an element",
        ),
        pytest.param(
            # Other calls of HIP take the grid in threads. The phases of calls are a table of their own.
            r"LaunchKernel(?!'|$)|GraphLaunch|Synchronize\$|^Synchronize$|(?:Begin|End)\)?Capture|StreamWaitEvent",
            {"queries/macros/calls.sql"},
            id="purpose of a call",
        ),
        pytest.param(
            r"^ProfilerStep#|^Optimizer\.step#$|^enumerate\(DataLoader\)#?$|dynamo_timed\)'?$|^Torch-Compiled Region$"
            r"|CompiledFxGraph\)|nccl\|gloo\|mpi\|ucc\|xccl|^Loss\|Criterion$|gemv\|dot",
            {
                "queries/macros/marks.sql",
                "hotline_analysis/kineto/sql/batch.sql",  # reads a file before there are macros
                "queries/annotate/placement/private/forward_item.sql",  # the common name of all regions
                "queries/annotate/steps/step_length/step_role.sql",  # the number of a step
            },
            id="mark of PyTorch",
        ),
        pytest.param(
            r"HtoD\||HostToDevice|\|Device -> Device|^'?HtoD|^Pageable|'%pageable",
            {
                "queries/macros/calls.sql",
                "hotline_analysis/prediction/scenarios/known.py",  # compared below
                "hotline_analysis/prediction/engine/other_gpu.py",  # copies within the memory of one GPU
            },
            id="direction of a copy",
        ),
        pytest.param(
            r"ProfilerStep#\|Optimizer|enumerate\\\(\|", {"queries/macros/code.sql"}, id="PyTorch's name of a range"
        ),
    ],
)
def test_a_decision_has_one_place(sign: str, places: set[str]) -> None:
    assert {name for name, parts in FILES.items() if any(re.search(sign, part) for part in parts)} == places


@pytest.mark.parametrize(("macro", "chosen"), [("is_copy_to_device", TO_GPU), ("is_pageable_copy", PAGEABLE)])
def test_predictions_and_queries_agree_on_copies(macro: str, chosen: pl.Expr) -> None:
    pairs = [
        f"{kind} ({place} -> {other})"
        for kind in ("HtoD", "DtoH", "DtoD", "PtoP")
        for place in ("Pageable", "Pinned", "Device", "Host")
        for other in ("Device", "Pageable", "Host")
    ]
    names = [
        *(f"Memcpy {pair}" for pair in pairs),
        "CopyHostToDevice",
        "MEMORY_COPY_HOST_TO_DEVICE",
        "CopyDeviceToHost",
    ]
    frame = pl.DataFrame({"name": names}).with_columns(pl.lit("memory").alias("class"))
    with duckdb.connect() as connection:
        install_macros(connection, [macro])
        by_query = [connection.execute(f"select {macro}(?)", [name]).fetchall()[0][0] for name in names]
    assert any(by_query)
    assert frame.select(chosen).to_series().to_list() == by_query


PATTERN = re.compile(
    r"\b(?:regexp_(?:matches|full_match|extract|extract_all|replace)|starts_with|ends_with|contains)"
    r"\(\s*[^',]*(?:\([^()]*\))?[^',]*,\s*'((?:[^']|'')*)'|\bi?like\s+'((?:[^']|'')*)'"
)


def test_a_pattern_over_names_has_one_place() -> None:
    """A pattern with a word that stands in two statements is a rule: it belongs in a macro or in `queries/rules`."""
    places: dict[str, set[str]] = {}
    for file in sorted((ROOT / "queries").rglob("*.sql")):
        if "macros" in file.parts:
            continue
        for match in PATTERN.finditer(re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8"))):
            pattern = match[1] or match[2] or ""
            if re.search("[a-zA-Z]{4}", pattern):
                places.setdefault(pattern, set()).add(file.relative_to(ROOT / "queries").as_posix())
    assert len(places) > 50
    several = {pattern: files for pattern, files in places.items() if len(files) > 1}
    assert several == {
        # a word of our own: the formula of `op_work`, the field of `event_args`
        "%convolution%": {"answers/efficiency/roofline.sql", "answers/efficiency/tensor_cores.sql"},
        '"time_rule"': {"answers/trust/caveats/caveats.sql", "export/perfetto_event.sql"},
        # the op of autograd's node of a dropout, and an op that draws at random
        "dropout": {
            "annotate/autograd/private/autograd_item.sql",
            "answers/memory/recompute_groups/recompute_groups.sql",
        },
    }
