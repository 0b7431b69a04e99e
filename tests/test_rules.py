"""The rules that are data: every file is a table that the database can use, and no rule is there twice or in vain."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from hotline_analysis import catalog
from hotline_analysis.catalog import rules
from hotline_analysis.vocabulary import KERNEL_CLASSES, PHASES

FILES = sorted((Path(__file__).parents[1] / "queries/rules").glob("*.csv"))
PATTERNS = [
    (name, column)
    for name, table in rules().items()
    for column in table.column_names
    if column == "pattern" or column.endswith("_pattern")
]


def column(name: str, of: str) -> list[str | None]:
    values: list[str | None] = rules()[name][of].to_pylist()
    return values


def test_every_file_is_a_table_that_a_query_reads() -> None:
    assert sorted(rules()) == [file.stem for file in FILES]
    read = {name for query in catalog.queries("annotate") for name in query.tables}
    assert rules().keys() <= read


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_a_header_and_full_lines(file: Path) -> None:
    header, *lines = csv.reader(file.read_text(encoding="utf-8").splitlines())
    assert header[-1] == "why"
    assert {len(line) for line in lines} == {len(header)}
    table = rules()[file.stem]
    assert table.column_names == [*header[:-1], "position"]
    assert table["position"].to_pylist() == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("name", rules())
def test_no_rule_is_there_twice(name: str) -> None:
    kind = [column for column in ("category", "kind", "op_pattern") if column in rules()[name].column_names]
    (first,) = (column for of, column in PATTERNS if of == name and column != "op_pattern")
    # Where the first match counts, one of two with the same pattern would never count.
    keys = rules()[name].select([first, *kind]).to_pylist()
    assert [key for key in keys if keys.count(key) > 1] == []


@pytest.mark.parametrize(("name", "of"), PATTERNS)
def test_patterns_are_patterns(name: str, of: str) -> None:
    with duckdb.connect() as connection:
        for pattern in column(name, of):
            assert pattern, name
            connection.execute("select regexp_matches('x', $pattern)", {"pattern": pattern})


@pytest.mark.parametrize("name", ["phase_names", "kernel_classes"])
def test_words_are_in_lower_case(name: str) -> None:
    """They are looked for in names that are made lower case."""
    assert [word for word in column(name, "word") if word is not None and word != word.lower()] == []


def test_short_names_refer_to_groups_of_their_pattern() -> None:
    for pattern, short in zip(
        column("kernel_short_names", "pattern"), column("kernel_short_names", "short"), strict=True
    ):
        assert pattern
        assert short
        groups = len(re.findall(r"(?<!\\)\((?!\?)", pattern))
        assert {int(number) for number in re.findall(r"\\(\d)", short)} <= set(range(1, groups + 1)), short


def test_labels_are_phases_buckets_and_signs() -> None:
    known: dict[str, set[str | None]] = {
        "strong": set(PHASES),
        "weak": set(PHASES),
        "aside": {*PHASES, "other"},
        "bucket": {"gradient_accumulation", "communication"},
        "sign": {"layer", "output", "activation", None, "update", "clip", "read", "rescale", "fetch", "draw", "create"},
        "none": {None},
        "metadata": {None},
    }
    for rule in rules()["phase_names"].to_pylist():
        assert rule["label"] in known[rule["kind"]], rule
        assert (rule["evidence"] is not None) == (rule["kind"] in ("strong", "weak", "aside")), rule


def test_kernels_have_a_known_class_and_unit() -> None:
    assert set(column("kernel_classes", "class")) <= set(KERNEL_CLASSES)
    assert set(column("kernel_units", "unit")) == {"matrix", "vector", None}
    precisions = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "=", None}
    assert set(column("kernel_units", "precision")) <= precisions


def test_weights_and_flags_are_numbers_and_booleans() -> None:
    assert set(rules()["ops_of_types"]["weight"].to_pylist()) == {4, 8}
    assert rules()["ops_of_types"].schema.field("weight").type == pa.int32()
    assert rules()["parts_of_types"].schema.field("has_children").type == pa.bool_()
