"""The cases that `make test` leaves out."""

from __future__ import annotations

import re
from pathlib import Path

from tests.long_cases import listed, of

ROOT = Path(__file__).parents[1]


def test_an_eighth_of_the_cases_and_all_quick_ones_are_run(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    cases = {"test_a[1]": 3, "test_a[2]": 0.6, "test_a[3]": 0.4, "test_a[4]": 0.7, "test_a[5]": 2, "test_b": 9}
    lines = (f'<testcase classname="tests.x.test_y" name="{name}" time="{s}"/>' for name, s in cases.items())
    report.write_text(f"<testsuite>{''.join(lines)}</testsuite>")
    # of the five, the quickest one is run
    assert of(report) == [f"tests/x/test_y.py::test_a[{case}]" for case in (1, 2, 4, 5)]
    cases |= {f"test_a[{number}]": 0.1 for number in range(6, 11)}
    lines = (f'<testcase classname="tests.x.test_y" name="{name}" time="{s}"/>' for name, s in cases.items())
    report.write_text(f"<testsuite>{''.join(lines)}</testsuite>")
    # of ten, two are run whatever they take, and all quick ones
    assert of(report) == [f"tests/x/test_y.py::test_a[{case}]" for case in (1, 2, 3, 4, 5)]


def test_each_is_of_a_function_that_exists() -> None:
    functions = {name.partition("[")[0] for name in listed()}
    gone = {
        name
        for name in functions
        if not re.search(rf"^def {name.partition('::')[2]}\(", (ROOT / name.partition("::")[0]).read_text(), re.M)
    }
    assert functions
    assert not gone, "write the list anew: python -m tests.long_cases"
