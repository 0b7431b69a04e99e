"""Imports inside the package go one way, and importing it stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import hotline_analysis

PACKAGE = Path(__file__).parents[1] / "hotline_analysis"
FACADE = "hotline_analysis"

# Each part, with those that it imports: from the ground up, and no arrow more than there is.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "text": set(),
    "vocabulary": set(),
    "demo": set(),
    "atomic": {"errors"},
    "catalog": {"errors", "text", "vocabulary"},
    "envelope": {"catalog"},
    "schema": {"catalog"},
    "database": {"catalog"},
    "gpu_models": {"catalog", "errors", "schema", "text"},
    "kineto": {"database", "errors"},
    "nsight": {"database", "errors", "kineto", "vocabulary"},
    "run": {"atomic", "catalog", "database", "errors", "schema", "text", "vocabulary"},
    "annotation": {"catalog", "database", "errors", "schema"},
    "importer": {
        *("annotation", "atomic", "catalog", "database", "errors", "gpu_models", "kineto", "nsight", "run", "schema"),
        *("text", "vocabulary"),
    },
    "answers": {"catalog", "errors", "run", "text", "vocabulary"},
    "prediction": {"answers", "atomic", "database", "errors", "gpu_models", "run", "text"},
    "charts": {"answers", "atomic", "catalog", "errors", "prediction", "run", "text", "vocabulary"},
    # A report is drawn with charts; charts know nothing of reports.
    "reports": {"answers", "catalog", "charts", "errors", "prediction", "run", "text", "vocabulary"},
    "gating": {"answers", "atomic", "errors", "reports", "run", "text"},
    "export": {
        *("answers", "atomic", "catalog", "charts", "envelope", "errors", "gating", "reports", "run", "schema", "text"),
    },
    "capture": {"atomic", "charts", "errors", "importer", "reports", "run", "text"},
    "predict": {"prediction"},
    "memory": {"answers", "prediction"},
    FACADE: {
        *("answers", "capture", "charts", "demo", "errors", "export", "gating", "importer", "memory", "predict"),
        *("prediction", "reports", "run"),
    },
    "agents": {
        *("answers", "atomic", "catalog", "charts", "envelope", "errors", "export", "gating", "importer", "prediction"),
        *("reports", "run", "schema", "vocabulary"),
    },
    "cli": {
        *(
            "agents",
            "answers",
            "atomic",
            "catalog",
            "charts",
            "envelope",
            "errors",
            "gating",
            "importer",
            "prediction",
            "reports",
            "schema",
        ),
        *("text", "vocabulary", FACADE),
    },
    "__main__": {"cli"},
}
# Heavy or optional, each with the only part that may import it.
RESERVED = {
    **{"mcp": "agents", "torch": "capture", "altair": "charts", "vl_convert": "charts", "typer": "cli"},
    "jinja2": "text",
    **{"dask": "importer", "distributed": "importer", "obstore": "importer"},
}

FILES = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])


def part(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0].partition(".")[0]
    return FACADE if first == "__init__" else first


def imports(source: str, package: str = "") -> Iterator[str]:
    """Yield the dotted name of each import, wherever it stands; `from a import b` gives `a.b`.

    Only stubs may import relatively, which are named by their `package`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or package, "relative import"
            origin = ".".join(filter(None, [package if node.level else "", node.module]))
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imports_of(file: Path) -> Iterator[str]:
    """What a file imports."""
    package = ".".join(file.parent.relative_to(PACKAGE.parent).parts) if file.suffix == ".pyi" else ""
    return imports(file.read_text(encoding="utf-8"), package)


def target(name: str) -> str | None:
    """The part of this package that an import names; None for another package."""
    top, _, rest = name.partition(".")
    if top != FACADE:
        return None
    first = rest.partition(".")[0]
    return first if first in ARROWS else FACADE


def backward(own: str, name: str) -> str | None:
    """Say what is wrong with the import of `name` in the part `own`."""
    top = name.partition(".")[0]
    if top in RESERVED and own != RESERVED[top]:
        return f"{own} imports {top}, which only {RESERVED[top]} may"
    to = target(name)
    if to is None or to == own or to in ARROWS[own]:
        return None
    return f"{own} imports {name}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    own = part(file)
    assert own in ARROWS, f"{own} has no place among the layers; give it one in this test and in CONTRIBUTING.md"
    wrong = [problem for name in imports_of(file) if (problem := backward(own, name))]
    assert wrong == []


def test_no_arrow_is_permitted_that_does_not_exist() -> None:
    found = {
        (part(file), to)
        for file in FILES
        for name in imports_of(file)
        if (to := target(name)) not in (None, part(file))
    }
    assert found == {(own, to) for own, parts in ARROWS.items() for to in parts}


def test_arrows_form_no_circle() -> None:
    floors = list(ARROWS)
    assert [(own, to) for own in floors for to in ARROWS[own] if floors.index(to) >= floors.index(own)] == []


def circle(sees: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other, directly or through others; empty if there is none."""
    left = {module: set(others) for module, others in sees.items()}
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    # A module that others only lead to is in no circle.
    while ends := [module for module in left if not any(module in others for others in left.values())]:
        for module in ends:
            del left[module]
    return sorted(left)


def test_no_modules_import_each_other() -> None:
    """Also not below `if TYPE_CHECKING` or in a function: two modules that need each other are one, or three."""
    modules = {module_of(file): file for file in FILES if file.suffix == ".py"}
    sees: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = (
            next((each for each in (name, name.rpartition(".")[0]) if each in modules), "") for name in imports_of(file)
        )
        sees[module] = {*names} - {module, ""}
    assert circle(sees) == []


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_a_circle_is_found() -> None:
    sees = {"top": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "ground"}, "ground": set()}
    assert circle(sees) == ["a", "b", "c"]
    assert circle({**sees, "c": {"ground"}}) == []


@pytest.mark.parametrize(
    ("own", "source"),
    [
        ("errors", "from hotline_analysis.schema import TABLES"),
        ("kineto", "from hotline_analysis import catalog"),
        ("run", "def f():\n    import hotline_analysis.importer"),
        ("charts", "from hotline_analysis.reports.renderers.text import render"),
        ("answers", "from hotline_analysis import load"),
        ("reports", "import altair as alt"),
        ("importer", "from torch.profiler import profile"),
    ],
)
def test_an_arrow_that_goes_back_is_found(own: str, source: str) -> None:
    assert [name for name in imports(source) if backward(own, name)]


def test_no_test_module_is_imported() -> None:
    """A test module can skip itself as a whole, and then it is missing for those that import it."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    names = [(file.name, name) for file in files for name in imports(file.read_text(encoding="utf-8"))]
    assert [(file, name) for file, name in names if is_of_a_test(name)] == []


def is_of_a_test(name: str) -> bool:
    """Whether an imported name is that of a test module, or is in one."""
    first, *rest = name.split(".")
    return first == "tests" and any(part.startswith("test_") for part in rest)


@pytest.mark.parametrize(
    "source", ["from tests import test_cli", "from tests.view.test_match import placed", "import tests.test_cli as cli"]
)
def test_the_check_finds_an_imported_test_module(source: str) -> None:
    assert [name for name in imports(source) if is_of_a_test(name)]


def test_import_is_light() -> None:
    heavy = "{'torch', 'altair', 'pandas', 'typer', 'rich', 'duckdb', 'polars', 'pyarrow'}"
    code = f"import sys, hotline_analysis; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_report_in_text_is_light() -> None:
    """What draws is not loaded, nor pandas, which Arrow loads where it is installed to look at lists and for NumPy."""
    code = (
        "import sys, hotline_analysis as ha\n"
        "for name in sys.argv[1:]: assert len(ha.report(ha.load(name)).to_text()) > 1000\n"
        "print(*sorted({'torch', 'altair', 'pandas', 'jinja2'} & set(sys.modules)))"
    )
    data = Path(__file__).parent / "data"
    # One of each kind: with frames, without GPU work, and with a model that is placed on the ops.
    traces = [data / "cnn.json.gz", data / "dlrm.json.gz", hotline_analysis.demo_trace()]
    command = [sys.executable, "-c", code, *map(str, traces)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"


def test_public_names_are_explicit() -> None:
    names = hotline_analysis.__all__
    assert sorted(names) == sorted(set(names))
    for name in names:
        assert getattr(hotline_analysis, name) is not None
        assert name == "__version__" or not name.startswith("_")


# --- functions -------------------------------------------------------------------------------------------------------

LONGEST_LINES = 60
MOST_LONG = 5


def long_functions(source: str) -> list[str]:
    """Functions whose code has more lines than a screen. Signature and docstring do not count."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if code and (node.end_lineno or 0) - code[0].lineno >= LONGEST_LINES:
                found.append(node.name)
    return found


def test_few_functions_are_longer_than_a_screen() -> None:
    found = {
        str(file.relative_to(PACKAGE)): names
        for file in FILES
        if file.suffix == ".py" and (names := long_functions(file.read_text(encoding="utf-8")))
    }
    assert sum(map(len, found.values())) <= MOST_LONG, found


def test_a_long_function_is_found() -> None:
    lines = "\n".join(["    pass"] * LONGEST_LINES)
    signature = 'def f(\n    a,\n):\n    """Text.\n\n    More.\n    """\n'
    assert long_functions(signature + lines) == []
    assert long_functions(f"{signature}{lines}\n    pass") == ["f"]
