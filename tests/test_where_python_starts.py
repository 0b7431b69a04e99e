"""Python finds the package and its SQL wherever it starts: in a clone after `pip install .`, and anywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def readme_programs() -> tuple[str, str]:
    """The Python blocks of README.md: one captures with torch, the other asks about the demo trace."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    capture, ask = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return capture, ask


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package as `pip install .` lays it out: the SQL is inside the package."""
    package = tmp_path / "site" / "hotline_analysis"
    package.mkdir(parents=True)
    for child in (ROOT / "hotline_analysis").iterdir():
        (package / child.name).symlink_to(child)
    (package / "queries").symlink_to(ROOT / "queries")
    return package.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the package as a clone has it: the SQL is next to the package."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("hotline_analysis", "queries"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(code: str, folder: Path, installed: Path) -> tuple[Path, str]:
    """Run a program in a folder with the package installed. Return the folder of the imported package, and the output.

    Python runs without the module `site`, which would add the editable installation of the development environment.
    """
    packages = [path for path in sys.path if path.endswith("site-packages")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *packages])}
    program = f"print(__import__('hotline_analysis').__file__)\n{code}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    file, _, output = done.stdout.partition("\n")
    return Path(file).parents[1], output


def check(folder: Path, package: Path, installed: Path) -> None:
    """Both programs of README.md run in the folder, with the package of the expected place."""
    capture, ask = readme_programs()
    imported, output = run(ask, folder, installed)
    assert imported == package
    assert "H100 80GB" in output
    pytest.importorskip("torch")
    imported, output = run(capture, folder, installed)
    assert imported == package
    assert "annotated run:" in output
    assert (folder / "run.json.gz").exists()


@pytest.mark.slow
def test_the_readme_runs_in_a_clone(installed: Path, clone: Path) -> None:
    check(clone, clone, installed)


@pytest.mark.slow
def test_the_readme_runs_elsewhere(installed: Path, tmp_path: Path) -> None:
    check(tmp_path, installed, installed)
