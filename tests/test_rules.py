"""The rules that are data: every file is a table that the database can use, and no rule is there twice or in vain."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotline_analysis import catalog
from hotline_analysis.catalog import rules
from hotline_analysis.database import install_macros
from hotline_analysis.schema import TABLES
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
    # GPUs have the columns that users give, with notes that are for them.
    assert header[-1] == ("note" if file.stem == "gpus" else "why")
    assert {len(line) for line in lines} == {len(header)}
    table = rules()[file.stem]
    assert table.column_names == [*(name for name in header if name != "why"), "position"]
    assert table["position"].to_pylist() == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("name", rules())
def test_no_rule_is_there_twice(name: str) -> None:
    kind = [column for column in ("category", "kind", "op_pattern") if column in rules()[name].column_names]
    first = [column for of, column in PATTERNS if of == name and column != "op_pattern"]
    # Where the first match counts, one of two with the same pattern would never count.
    # Rules without a pattern are unlike by their name, or by their numbers.
    unlike = ["name"] if "name" in rules()[name].column_names else ["major", "minor"]
    if "roles" in rules()[name].column_names:
        unlike.append("roles")  # overloads have other arguments
    if "node" in rules()[name].column_names:
        unlike.append("node")  # the same op in other nodes of autograd
    if name == "event_categories":
        first, kind = ["spelling"], []
    if name in ("track_kinds", "track_events"):
        first = [each for each in rules()[name].column_names if each not in ("position", "device", "category", "kind")]
    keys = rules()[name].select((first or unlike) + kind).to_pylist()
    assert [key for key in keys if keys.count(key) > 1 and key.get("name_pattern", "") is not None] == []


@pytest.mark.parametrize(("name", "of"), PATTERNS)
def test_patterns_are_patterns(name: str, of: str) -> None:
    with duckdb.connect() as connection:
        for pattern in column(name, of):
            # Of some GPUs it is not known what traces call them.
            assert pattern or (name == "gpus" and pattern is None), name
            connection.execute("select regexp_matches('x', $pattern)", {"pattern": pattern})


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *(("track_kinds", of) for of in ("process", "label", "thread")),
        ("track_events", "name"),
        ("track_events", "task"),
    ],
)
def test_patterns_of_tracks_are_patterns_without_numbers(name: str, of: str) -> None:
    """They are looked for in names in which each number is a 0."""
    with duckdb.connect() as connection:
        for pattern in column(name, of):
            if pattern is not None:
                connection.execute("select regexp_matches('x', $pattern)", {"pattern": pattern})
                assert not re.search("[1-9]", pattern), pattern


def test_tracks_have_a_known_kind() -> None:
    kinds = {"host", "calls", "device", "ops", "summary", "unknown_device"}
    assert set(column("track_kinds", "kind")) == kinds
    assert set(column("track_events", "track_kind")) == kinds
    known = {*column("event_categories", "category"), "device_summary", "device_unknown"}
    assert set(column("track_events", "category")) <= known
    rules_of_tracks = rules()["track_events"].to_pylist()
    for kind in kinds:
        *_, last = [rule for rule in rules_of_tracks if rule["track_kind"] == kind]
        assert (last["name"], last["task"]) == (None, None), kind


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


WITH_WORDS = [
    (rule["pattern"], (rule.get("words") or rule["word"]).split("|"), name == "kernel_classes")
    for name in ("kernel_classes", "kernel_short_names", "kernel_units")
    for rule in rules()[name].to_pylist()
]


@pytest.mark.parametrize(("pattern", "words", "in_lower_case"), WITH_WORDS, ids=[rule[0][:40] for rule in WITH_WORDS])
def test_a_name_that_matches_has_one_of_the_words(pattern: str, words: list[str], *, in_lower_case: bool) -> None:
    """The words are looked for first, so a name without any of them never meets the pattern."""

    @settings(max_examples=25, database=None, derandomize=True)
    @given(st.from_regex(re.compile(pattern, re.ASCII)))
    def check(name: str) -> None:
        text = name.lower() if in_lower_case else name
        assert any(word in text for word in words), name

    check()


def test_labels_are_phases_buckets_and_signs() -> None:
    known: dict[str, set[str | None]] = {
        "strong": set(PHASES),
        "weak": set(PHASES),
        "aside": {*PHASES, "other"},
        "bucket": {"gradient_accumulation", "communication"},
        "sign": {
            *("layer", "output", "activation", None, "update", "list", "read", "rescale", "fetch", "draw", "create"),
            "copy",
        },
        "gradient": {
            *("step", "norm", "square", "gather", "coefficient", "sum", "product", "scale", "bound", "read"),
            *("unscale", "rescale", "update"),
        },
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


def test_gpus_have_the_columns_that_users_give() -> None:
    assert rules()["gpus"].column_names[:-1] == [
        column.name for column in TABLES["gpu_given"].columns if column.name != "position"
    ]
    assert len(set(column("gpus", "model"))) == len(column("gpus", "model"))
    assert None not in column("gpus", "source")


def test_peaks_follow_from_multiprocessors_and_clock() -> None:
    """FP16 by matrix units is multiprocessors times operations in a clock times clock, where all three are known.

    Vendors round, and NVIDIA prints 362 for the L40S, whose figures give 366.
    """
    checked = 0
    for gpu in rules()["gpus"].to_pylist():
        parts = (gpu["sm_count"], gpu["boost_mhz"], gpu["matrix_flop_per_clock_per_sm"])
        if None not in parts:
            product = gpu["sm_count"] * gpu["boost_mhz"] * 1e6 * gpu["matrix_flop_per_clock_per_sm"] / 1e12
            assert gpu["fp16_matrix_tflop_per_s"] == pytest.approx(product, rel=0.015), gpu["model"]
            checked += 1
    assert checked >= 30


def test_a_name_of_a_gpu_is_that_of_one_model() -> None:
    """Names as drivers give them; those that look like another's are of none."""
    names = {
        "NVIDIA H100 80GB HBM3": "H100 SXM5 80GB",
        "NVIDIA H100 PCIe": "H100 PCIe 80GB",
        "NVIDIA H100 NVL": "H100 NVL 94GB",
        "NVIDIA H200": "H200 SXM 141GB",
        "NVIDIA GH200 480GB": "GH200 (H100 part, 96GB HBM3)",
        "NVIDIA A100-SXM4-80GB": "A100 SXM4 80GB",
        "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
        "NVIDIA A10": "A10",
        "NVIDIA A10G": "A10G (AWS)",
        "NVIDIA L40": "L40",
        "NVIDIA L40S": "L40S",
        "NVIDIA L4": "L4",
        "Tesla T4": "T4",
        "NVIDIA B200": "B200 (HGX, 1000 W)",
        "NVIDIA GB200": "GB200 (one of its GPUs, 1200 W)",
        "AMD Instinct MI300X VF": "Instinct MI300X",
        "AMD Instinct MI250X": "Instinct MI250X (one GCD)",
        "NVIDIA GeForce RTX 4090": "GeForce RTX 4090",
        "NVIDIA GeForce RTX 4090 D": None,
        "NVIDIA GeForce RTX 3090 Ti": None,
        "NVIDIA A1000": None,
        "ARTEMIS": None,
    }
    with duckdb.connect() as connection:
        connection.register("gpus", rules()["gpus"])
        for name, model in names.items():
            found = connection.execute(
                "select model from gpus where regexp_matches(?, name_pattern) order by position", [name]
            ).fetchall()
            assert [row[0] for row in found] == ([] if model is None else [model])


def test_every_type_of_a_tensor_has_a_size() -> None:
    with duckdb.connect() as connection:
        install_macros(connection, ["bytes_of_dtype"])
        for name in column("dtypes", "name"):
            (row,) = connection.execute("select bytes_of_dtype(?)", [name]).fetchall()
            assert row[0] in (1, 2, 4, 8, 16), name
