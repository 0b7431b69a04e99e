"""Imports inside the package go one way, and importing it stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hotline_analysis

PACKAGE = Path(__file__).parents[1] / "hotline_analysis"
FACADE = "hotline_analysis"

# Each part, with those it may import.
BASE = {
    "catalog",
    "database",
    "errors",
    "humane",
    "masking",
    "notebook",
    "place",
    "schema",
    "scope",
    "stored",
    "vocabulary",
    "whole",
}
DATA = BASE | {"kineto", "trace"}
ALLOWED = {
    "vocabulary": set[str](),
    "catalog": {"errors", "humane", "vocabulary"},
    "database": {"catalog"},
    "errors": set[str](),
    "humane": set[str](),
    "masking": set[str](),
    "notebook": {"humane"},
    "place": set[str](),
    "whole": {"errors"},
    "schema": {"catalog"},
    "stored": {"errors", "schema", "whole"},
    "kineto": BASE,
    "scope": {"errors", "humane"},
    "trace": BASE | {"kineto"},
    "annotate": DATA,
    "importer": DATA | {"annotate"},
    "analyze": DATA,
    "charts": DATA | {"analyze"},
    # A report is drawn with charts; charts know nothing of reports.
    "report": DATA | {"analyze", "charts"},
    "capture": DATA | {"annotate", "importer", "analyze", "report"},
    "export": DATA | {"analyze"},
    "console": {"humane"},
    "cli": DATA | {"console", "annotate", "importer", "analyze", "charts", "export", "report", FACADE},
    "__main__": {"cli"},
    "__init__": DATA | {"annotate", "importer", "capture", "analyze", "charts", "export", "report"},
}
# Heavy or optional, each with the only part that may import it.
RESERVED = {"torch": "capture", "altair": "charts", "vl_convert": "charts", "typer": "cli"}

FILES = sorted(PACKAGE.rglob("*.py"))


def part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    """Yield the dotted name of each import, wherever it stands; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def backward(own: str, name: str) -> str | None:
    """Say what is wrong with the import of `name` in the part `own`."""
    top, _, rest = name.partition(".")
    if top in RESERVED and own != RESERVED[top]:
        return f"{own} imports {top}, which only {RESERVED[top]} may"
    if top != FACADE:
        return None
    first = rest.partition(".")[0]
    target = first if first in ALLOWED else FACADE
    if target == own or target in ALLOWED[own]:
        return None
    return f"{own} imports {name}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    own = part(file)
    assert own in ALLOWED, f"{own} has no place among the layers; give it one in this test and in the design"
    wrong = [problem for name in imports(file.read_text(encoding="utf-8")) if (problem := backward(own, name))]
    assert wrong == []


@pytest.mark.parametrize(
    ("own", "source"),
    [
        ("errors", "from hotline_analysis.schema import TABLES"),
        ("kineto", "from hotline_analysis import trace"),
        ("trace", "def f():\n    import hotline_analysis.importer"),
        ("charts", "from hotline_analysis.report.text import render"),
        ("analyze", "from hotline_analysis import load"),
        ("report", "import altair as alt"),
        ("importer", "from torch.profiler import profile"),
    ],
)
def test_an_arrow_that_goes_back_is_found(own: str, source: str) -> None:
    assert [name for name in imports(source) if backward(own, name)]


def test_import_is_light() -> None:
    heavy = "{'torch', 'altair', 'pandas', 'typer', 'rich', 'duckdb', 'polars', 'pyarrow'}"
    code = f"import sys, hotline_analysis; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_explicit() -> None:
    names = hotline_analysis.__all__
    assert sorted(names) == sorted(set(names))
    for name in names:
        assert getattr(hotline_analysis, name) is not None
        assert name == "__version__" or not name.startswith("_")
