"""What `pip install` puts on the user's machine is what the repository holds, and no more."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a wheel built from a copy, so that no stale build folder can fill it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("hotline_analysis", "queries", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (source / "out").glob("*.whl")
    return set(zipfile.ZipFile(file).namelist())


def test_wheel_holds_the_package_and_nothing_else(wheel: set[str]) -> None:
    # The same patterns as package-data in pyproject.toml.
    patterns = (
        "**/*.py",
        "**/*.pyi",
        "py.typed",
        "data/*",
        "kineto/sql/*.sql",
        "nsight/sql/*.sql",
        "charts/assets/*.css",
        "charts/assets/*.js",
        "schemas/*",
        "agents/text/*",
        "text/templates/*",
    )
    code = [file for pattern in patterns for file in (ROOT / "hotline_analysis").glob(pattern)]
    sql = [file for pattern in ("*.py", "**/*.sql", "rules/*.csv") for file in (ROOT / "queries").glob(pattern)]
    expected = {file.relative_to(ROOT).as_posix() for file in code}
    expected |= {f"hotline_analysis/queries/{file.relative_to(ROOT / 'queries').as_posix()}" for file in sql}
    assert {name for name in wheel if ".dist-info/" not in name} == expected


@pytest.mark.parametrize(
    "name",
    ["hotline_analysis/py.typed", "hotline_analysis/data/demo.json.gz", "hotline_analysis/kineto/sql/batch.sql"],
)
def test_wheel_holds(wheel: set[str], name: str) -> None:
    assert name in wheel


def test_wheel_holds_queries(wheel: set[str]) -> None:
    for folder in ("answers", "macros", "rules"):
        assert any(name.startswith(f"hotline_analysis/queries/{folder}/") for name in wheel)


def test_all_files_name_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
