"""The tests that are run for a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hotline_analysis import catalog
from tests import changed


def run_for(*files: str) -> list[str]:
    """The tests for files that have changed, without the queries."""
    return [each for each in changed.to_run(files) if not each.startswith("--")]


def file_of(query: str) -> str:
    return f"queries/{catalog.get(query).file}"


@pytest.mark.slow
def test_an_answer_is_seen_by_its_tests_and_those_of_all_answers() -> None:
    first, *found = changed.to_run([file_of("annotation_kernels")])
    assert first == "--of-queries=annotation_kernels"
    assert {"tests/answer/test_annotations.py", "tests/test_query_contracts.py"} <= set(found)
    assert "tests/test_align.py" not in found
    assert not any(file.startswith("tests/derive/") for file in found)


@pytest.mark.slow
def test_a_table_is_seen_by_all_that_follows_from_it() -> None:
    """By `:reads`: its own test first, then answers, rules, and reports, whose files do not name it."""
    queries, *found = changed.to_run([file_of("nesting")])
    assert {"label", "kernel_breakdown"} <= set(queries.removeprefix("--of-queries=").split(","))
    assert "tests/derive/test_nesting.py" in found[:20]
    assert {"tests/test_report.py", "tests/derive/test_label.py", "tests/test_golden.py"} <= set(found)


def test_a_step_of_a_query_and_a_macro_and_a_rule_are_seen_by_the_query() -> None:
    step = catalog.get("idle_part").steps[0]
    assert "idle_part" in changed.to_run([f"queries/{step.file}"])[0]
    macro = catalog.macros()["is_waiting_frame"]
    using = {query.name for query in catalog.queries() if macro.name in query.sql}
    found = set(changed.to_run([f"queries/macros/{macro.subject}.sql"])[0].removeprefix("--of-queries=").split(","))
    assert using <= found
    assert "name_class" in changed.to_run(["queries/rules/phase_names.csv"])[0]


def test_of_tests_of_all_queries_those_of_a_change_are_run_unless_python_changed() -> None:
    answer, own = file_of("annotation_kernels"), "tests/answer/test_annotations.py"
    with_generated = [answer, own, "hotline_analysis/answers/generated.pyi"]
    assert changed.to_run(with_generated)[0] == "--of-queries=annotation_kernels"
    for python in ("hotline_analysis/catalog/query.py", "tests/test_query_contracts.py", "tests/query_arguments.py"):
        assert not changed.to_run([answer, python])[0].startswith("--")


def test_python_is_seen_along_the_imports() -> None:
    found = run_for("hotline_analysis/annotation/align.py")
    assert "tests/test_align.py" in found
    assert "tests/accuracy/test_unseen.py" in found
    assert "tests/gating/test_statistics.py" not in found


def test_a_helper_is_seen_by_those_that_import_it_and_a_conftest_by_its_folder() -> None:
    found = run_for("tests/derive/updates.py")
    of_updates = "from tests.derive.updates import"
    importing = [file for file in Path(__file__).parent.rglob("test_*.py") if f"\n{of_updates}" in file.read_text()]
    assert importing
    assert {str(file.relative_to(changed.ROOT)) for file in importing} <= set(found)
    rules = run_for("tests/rule/conftest.py")
    assert rules
    assert all(file.startswith("tests/rule/") for file in rules)


def test_other_files_are_seen_by_tests_that_name_them() -> None:
    assert "tests/test_golden.py" in run_for("tests/golden/dlrm.txt")
    assert "tests/test_align.py" not in run_for("tests/golden/dlrm.txt")
    assert "tests/test_docs.py" in run_for("docs/robustness.md")


def test_what_differs_is_what_git_says(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True)

    git("init", "--quiet")
    for name in ("same", "other", "gone"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "other").write_text("2")
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_text("1")
    assert changed.differing("HEAD", tmp_path) == ["gone", "new", "other"]
