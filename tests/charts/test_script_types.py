"""The types of the pages' scripts: the scripts keep to them, and so do the data that Python writes for the scripts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from tests.charts.two_kinds import loop

ASSETS = Path(charts.__file__).parent / "assets"
# `make types-js` installs it here.
INSTALLED = sorted(Path(sys.prefix).glob("typescript-*/node_modules/.bin/tsc"))
TSC = str(INSTALLED[-1]) if INSTALLED else shutil.which("tsc")
pytestmark = pytest.mark.skipif(TSC is None, reason="tsc is not installed; `make types-js` gets it where npm is")


def complaints(*arguments: str) -> str:
    assert TSC is not None
    return subprocess.run([TSC, *arguments], capture_output=True, text=True, check=False).stdout


def complaints_of_data(folder: Path, **values: str) -> str:
    """What tsc says of JSON texts, each as a value of the type with its name."""
    texts = [f"const value{number}: {name} = {text};" for number, (name, text) in enumerate(values.items())]
    (folder / "data.ts").write_text("\n".join(texts), encoding="utf-8")
    return complaints("--noEmit", "--strict", "--types", "", str(ASSETS / "types.d.ts"), str(folder / "data.ts"))


@pytest.fixture(scope="module")
def other_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    """Steps of two kinds; the first thread waits for its batch, and another thread works."""
    with loop().load(tmp_path_factory.mktemp("kinds")) as trace:
        yield trace


def test_scripts_keep_to_their_types() -> None:
    assert complaints("--project", str(ASSETS / "jsconfig.json")) == ""


def test_a_wrong_member_is_seen(tmp_path: Path) -> None:
    for file in ASSETS.iterdir():
        shutil.copy(file, tmp_path)
    with (tmp_path / "step_data.js").open("a", encoding="utf-8") as script:
        script.write("const hotlineWrong = (/** @type {View} */ view) => view.spam;\n")
    assert "Property 'spam' does not exist on type 'View'" in complaints("--project", str(tmp_path / "jsconfig.json"))


def test_data_that_python_writes_have_the_types(other_kinds: Trace, tmp_path: Path) -> None:
    with ha.load(ha.demo_trace()) as example:
        for trace in (example, other_kinds):
            html = ha.report(trace).to_html(charts.timeline(trace))
            (screen,) = re.findall("data-hotline-screen>(.*?)</script>", html)
            trees = re.findall("data-hotline-(?:data|tree)>(.*?)</script>", html)
            for tree in trees:
                assert complaints_of_data(tmp_path, StepScreen=screen, StepTree=tree) == ""


def test_data_of_another_type_are_seen(tmp_path: Path) -> None:
    said = complaints_of_data(tmp_path, Bar='{"device": "0", "state": "python", "wait": null, "time": 1, "share": []}')
    assert "Type 'string' is not assignable to type 'number'" in said
