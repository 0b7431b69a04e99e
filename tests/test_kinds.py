"""The cases that `make test-kinds` runs of a test that has many, and the tests of `make test`."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotline_analysis import catalog
from tests import kinds

GPU = '{"cat": "kernel"}, {"cat": "cpu_op"}'
TRAINING = GPU + ', {"name": "ReluBackward0"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Traces that grow from the first to the last."""
    texts = {
        "inference": GPU,
        "inference_again": GPU + " " * 9,
        "training": TRAINING + " " * 99,
        "graphs": GPU + ', {"name": "cudaGraphLaunch"}' + " " * 999,
        "training_with_graphs": TRAINING + ', {"name": "cudaGraphLaunch"}' + " " * 9999,
    }
    for name, text in texts.items():
        # Each of them more bytes than the last, also when it is compressed.
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(f"[{text}]".encode(), compresslevel=0))
    return tmp_path


def test_the_kinds_of_a_file_are_what_it_has_and_lacks(folder: Path) -> None:
    found = kinds.of_file(folder / "training.json.gz")
    assert {("GPU work", True), ("backward", True), ("graphs", False), ("GPU work and backward", True)} <= found
    assert ("backward", False) in kinds.of_file(folder / "graphs.json.gz")


def test_the_smallest_files_that_are_of_every_kind_are_chosen(folder: Path) -> None:
    files = kinds.of_files(folder.glob("*.json.gz"))
    chosen = kinds.smallest_of_each(files, {file: file.stat().st_size for file in files})
    # training is a kind, and so are graphs; inference has neither, which each of the two others shows of one.
    assert {file.name for file in chosen} == {"training.json.gz", "graphs.json.gz"}
    assert frozenset().union(*(files[file] for file in chosen)) == frozenset().union(*files.values())


def case(function: str, argument: object, *marks: str) -> Any:
    """A case of a test, as pytest collects it."""
    return SimpleNamespace(
        nodeid=f"tests/test_x.py::{function}[{argument}]",
        callspec=SimpleNamespace(params={"name": argument}),
        get_closest_marker=lambda mark: mark if mark in marks else None,
    )


def test_of_a_test_over_traces_those_of_each_kind_are_run(folder: Path) -> None:
    names = ["inference", "inference_again.json.gz", "training", "graphs", "no trace"]
    cases = [case("test_a", name) for name in names] + [case("test_b", "inference")]
    cases += [case("test_c", folder / f"{name}.json.gz") for name in ("training", "training_with_graphs")]
    left: list[Any] = [*kinds.left_out(cases, folder)]
    # Of test_c both are needed: one has graphs, and the other has none.
    assert [item.callspec.params["name"] for item in left] == ["inference", "inference_again.json.gz"]
    # Without the folder, these are five cases like any others.
    assert [item.callspec.params["name"] for item in kinds.left_out(cases, None)] == ["no trace"]  # type: ignore[attr-defined]


def test_of_a_sampled_test_over_traces_the_smallest_is_run(folder: Path) -> None:
    (folder / "cpu.json.gz").write_bytes(gzip.compress(b'[{"cat": "cpu_op"}]'))
    names = ["demo", "cpu", "graphs", "training", "inference"]
    left: list[Any] = [*kinds.left_out([case("test_a", name, "sampled") for name in names], folder)]
    # No training and no graphs is what cpu shows as well, so inference is not one of those that are of each kind.
    assert [item.callspec.params["name"] for item in left] == ["cpu", "graphs", "inference"]


def test_what_lies_elsewhere_is_no_real_trace(folder: Path) -> None:
    (folder / "notes.md").write_text("notes")
    (folder.parent / "outside.json.gz").write_bytes(b"no trace")
    others = ["", "no trace", "notes.md", __file__, Path(__file__), "../outside", folder / ".." / "outside.json.gz", 5]
    assert kinds.traces_in(others, folder) == []
    assert kinds.traces_in([str(folder.name)], folder.parent) == sorted(folder.glob("*.json.gz"))


def run_of(cases: list[Any]) -> list[object]:
    """The arguments of the cases that `make test` runs."""
    left = set(map(id, kinds.left_out(cases, None)))
    return [item.callspec.params["name"] for item in cases if id(item) not in left]


def test_of_many_cases_four_are_run() -> None:
    assert run_of([case("test_a", number) for number in range(4)]) == [0, 1, 2, 3]
    assert run_of([case("test_a", number) for number in range(5)]) == [0, 1, 2, 3]
    assert run_of([case("test_a", number) for number in range(17)]) == [0, 4, 8, 12]
    assert run_of([case("test_a", 0), case("test_b", 1)]) == [0, 1]


def test_of_a_sampled_test_the_first_case_is_run() -> None:
    assert run_of([case("test_a", number, "sampled") for number in range(16)]) == [0]
    assert run_of([case("test_a", number, "sampled") for number in range(17)]) == [0, 4, 8, 12]


def test_of_cases_that_differ_only_in_their_seed_one_is_run() -> None:
    cases = [case("test_a", f"{layout}-{seed}") for layout in ("dense", "spaced") for seed in range(3)]
    for item, (layout, seed) in zip(cases, [(each, s) for each in ("dense", "spaced") for s in range(3)], strict=True):
        item.callspec.params = {"name": layout, "seed": seed}
    left = list(map(id, kinds.left_out(cases, None)))
    kept = [item.callspec.params for item in cases if id(item) not in left]
    assert kept == [{"name": "dense", "seed": 0}, {"name": "spaced", "seed": 0}]
    # Not to draw at all is another kind.
    cases[0].callspec.params = {"name": "dense", "seed": None}
    left = list(map(id, kinds.left_out(cases[:3], None)))
    assert left == [id(cases[2])]


def test_a_sample_has_one_case_of_each_module_that_is_not_slow() -> None:
    def item(name: str, *marks: str) -> Any:
        return SimpleNamespace(nodeid=f"tests/{name}", get_closest_marker=lambda mark: mark in marks or None)

    first = [item("test_a.py::test_b[1]"), item("test_a.py::test_b[2]"), item("test_a.py::test_c")]
    slow = [item("test_d.py::test_e", "long"), item("test_d.py::test_f", "slow"), item("test_d.py::test_g")]
    traces = [item(f"test_h.py::test_i[{number}]", "traces") for number in range(3)]
    whole = [item("test_j.py::test_k", "slow")]
    assert kinds.sample([*first, *slow, *traces, *whole], [traces[0]]) == [first[0], slow[2], traces[1]]


def test_all_cases_of_queries_are_run() -> None:
    queries = catalog.queries()[:7]
    assert run_of([case("test_a", query) for query in queries]) == queries


@pytest.mark.traces
def test_the_real_traces_are_more_than_those_of_each_kind() -> None:
    from tests.real_traces import TRACES

    files = kinds.of_files(TRACES.rglob("*.json.gz"))
    chosen = kinds.smallest_of_each(files, {file: file.stat().st_size for file in files})
    assert 3 < len(chosen) < len(files) / 2


def test_cases_of_other_queries_are_known() -> None:
    steps, modules = catalog.get("steps"), catalog.get("modules")
    cases = [case("test_a", steps), case("test_a", modules), case("test_b", "steps")]
    assert kinds.of_other_queries(cases, ["modules", "ranks"]) == [cases[0]]
    assert kinds.of_other_queries(cases, []) == cases[:2]
