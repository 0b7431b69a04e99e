"""The Dockerfile, as far as that can be tried without Docker: its files, what it runs in a venv, and its command."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line and not line.startswith("#")]


def copies() -> dict[str, str]:
    """Where each file and folder goes that is copied into the image."""
    into: dict[str, str] = {}
    for name, rest in instructions():
        if name == "COPY":
            *sources, target = rest.split()
            into |= {source: target + source if target.endswith("/") else target for source in sources}
    return into


def test_it_knows_no_more_than_these() -> None:
    """The tests below go through each of them."""
    assert {name for name, _ in instructions()} == {"FROM", "COPY", "RUN", "WORKDIR", "USER", "ENTRYPOINT"}


def test_its_python_will_do() -> None:
    (image,) = (rest for name, rest in instructions() if name == "FROM")
    version = re.fullmatch(r"python:([\d.]+)-slim", image)
    assert version
    assert SpecifierSet(PROJECT["requires-python"]).contains(version[1])


def test_what_is_copied_is_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in lines if line.startswith("!")} == set(copies())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv in which what the image runs was run on copies of the files, without the packages that it depends on."""
    root = tmp_path_factory.mktemp("image")
    for source, target in copies().items():
        place = root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, place)
    venv.create(root / "venv", with_pip=True)
    paths = os.pathsep.join([str(root / "venv" / "bin"), os.environ["PATH"]])
    for name, rest in instructions():
        if name == "RUN":
            here = rest.replace("/src", str(root / "src"))
            assert shlex.split(here)[:2] == ["pip", "install"]
            env = {**os.environ, "PATH": paths, "PIP_NO_DEPS": "1", "PIP_QUIET": "2"}
            done = subprocess.run(["sh", "-ec", here], env=env, cwd=root, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return root / "venv" / "bin"


@pytest.mark.long
def test_its_command_is_what_was_installed(installed: Path, tmp_path: Path) -> None:
    """Also for a user without a home, as one that `--user` names."""
    (entry,) = (json.loads(rest) for name, rest in instructions() if name == "ENTRYPOINT")
    assert entry == ["hotline"]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    env = {**os.environ, "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(packages)}
    line = [str(installed / entry[0]), "demo"]
    done = subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "H100 80GB" in done.stdout


def test_the_extras_that_it_names_exist() -> None:
    runs = " ".join(rest for name, rest in instructions() if name == "RUN")
    (named,) = (part.split("[")[1].rstrip("]") for part in shlex.split(runs) if part.startswith("/src["))
    assert set(named.split(",")) <= PROJECT["optional-dependencies"].keys()
