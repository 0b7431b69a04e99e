"""Lines of code at places that a trace names: which are shown, and that a hostile trace gets nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotline_analysis.text.source_lines import Lines

CODE = '''\
import torch

API_KEY = 4711


class Net(torch.nn.Module):
    """Docs with a password in them
    def forward(self): not code
    """

    token = 12

    @torch.compile(mode="secret")
    @torch.no_grad()
    def forward(self, x, mode="train"):  # a secret
        x = self.layers(x, key="s3cret", other=b'bytes', third=f"{x}!")  # comment
        y = """first
        second """ + self.name(x)
        return (lambda z: self.head(z))(x)

    def other(
        self,
    ):
        def forward(x):
            return 1
        return [self.head(x) for x in self.parts]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").write_text(CODE, encoding="utf-8")
    return tmp_path / "code"


def shown(folder: Path, number: int, function: str | None = None) -> str:
    return Lines([str(folder)]).at(f"model.py:{number}", function)


def test_a_line_is_shown_without_texts_and_comments(folder: Path) -> None:
    assert shown(folder, 16) == "x = self.layers(x, key=…, other=…, third=…)"
    assert shown(folder, 16, "forward") == shown(folder, 16)
    assert shown(folder, 17) == "y = …"
    assert shown(folder, 18) == "… + self.name(x)"
    assert shown(folder, 26, "other") == "return [self.head(x) for x in self.parts]"


def test_the_head_of_a_function_gives_its_def(folder: Path) -> None:
    expected = "def forward(self, x, mode=…):"
    assert [shown(folder, number, "forward") for number in (13, 14, 15)] == [expected] * 3
    assert shown(folder, 21, "other") == "def other("
    assert shown(folder, 24, "forward") == "def forward(x):"
    assert shown(folder, 6) == "class Net(torch.nn.Module):"


@pytest.mark.parametrize("number", [0, 1, 3, 4, 7, 8, 9, 10, 11, 27, 999_999])
def test_nothing_outside_functions_is_shown(folder: Path, number: int) -> None:
    assert shown(folder, number) == ""


def test_a_line_of_another_function_is_not_shown(folder: Path) -> None:
    """Stacks name the function; if another stands there, the file is another or has changed."""
    assert shown(folder, 16, "backward") == ""
    assert shown(folder, 25, "other") == ""
    assert shown(folder, 6, "Net") == ""
    assert shown(folder, 3, "<module>") == ""
    assert shown(folder, 26, "<listcomp>") == shown(folder, 26, "other") != ""


def test_whole_paths_must_lie_in_a_folder_of_this_python(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(CODE, encoding="utf-8")
    lines = Lines([str(folder)])
    assert lines.at(f"{folder}/model.py:15") == "def forward(self, x, mode=…):"
    for place in (f"{outside}:15", "../outside.py:15", f"{folder}/../outside.py:15", f"{folder}:15", "outside.py:15"):
        assert lines.at(place) == ""
    # What a name begins with says nothing about where a file lies.
    (tmp_path / "code2").mkdir()
    (tmp_path / "code2" / "model.py").write_text(CODE, encoding="utf-8")
    assert lines.at(f"{tmp_path}/code2/model.py:15") == ""
    assert Lines(["/"]).at(f"{outside}:15") == ""


def test_only_plain_files_of_python_are_read(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(CODE, encoding="utf-8")
    (folder / "link.py").symlink_to(outside)
    (folder / "key.pem").write_text(CODE, encoding="utf-8")
    (folder / "named.py").symlink_to(folder / "key.pem")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "model.py").write_text(CODE, encoding="utf-8")
    (folder / "shown.py").symlink_to(folder / ".hidden" / "model.py")
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    (folder / "wrong.py").write_text("def forward(:\n  pass\n", encoding="utf-8")
    (folder / "binary.py").write_bytes(b"\x00\xff" * 40)
    (folder / "large.py").write_text(CODE + "# " + "x" * 1_000_000, encoding="utf-8")
    (folder / "deep.py").write_text("def f():\n    return " + "(" * 5000 + ")" * 5000, encoding="utf-8")
    names = ("link.py", "key.pem", "named.py", ".hidden/model.py", "shown.py", "folder.py", "pipe.py", "wrong.py")
    more = ("binary.py", "large.py", "deep.py", "gone.py", "", "model.py:x", "a\0b.py", "x" * 5000 + ".py")
    lines = Lines([str(folder)])
    for name in (*names, *more):
        assert lines.at(f"{name}:15") == ""
        assert lines.at(f"{name}:2", "f") == ""
    assert lines.at(None) == ""


def test_links_devices_and_ways_up_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    """Not to what lies outside, not for ever, and not to gigabytes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.py").write_text(CODE, encoding="utf-8")
    (folder / "linked").symlink_to(outside)
    (folder / "zero.py").symlink_to("/dev/zero")
    (folder / "loop.py").symlink_to(folder / "loop.py")
    os.mkfifo(tmp_path / "pipe")
    (folder / "piped.py").symlink_to(tmp_path / "pipe")
    with (folder / "huge.py").open("wb") as made:
        made.truncate(1 << 36)  # takes no place on the disk
    (folder / "inside.py").symlink_to(folder / "model.py")
    lines = Lines([str(folder)])
    ways = ("linked/model.py", "linked/../outside/model.py", "x/../../outside/model.py", "../outside/model.py")
    more = (f"{folder}/linked/model.py", f"{folder}/../outside/model.py", "./../outside/model.py", "/dev/zero.py")
    for name in (*ways, *more, "zero.py", "loop.py", "piped.py", "huge.py", "/proc/self/mem.py", "~/model.py"):
        assert lines.at(f"{name}:15") == "", name
    # What leads back to where it may is read.
    for name in ("inside.py", "x/../model.py", "./model.py"):
        assert lines.at(f"{name}:15") == "def forward(self, x, mode=…):", name


def test_a_long_line_is_cut(folder: Path) -> None:
    (folder / "long.py").write_text(f"def f(x):\n    return {' + '.join(['x'] * 500)}\n", encoding="utf-8")
    line = Lines([str(folder)]).at("long.py:2", "f")
    assert len(line) == 160
    assert line.endswith("…")


def test_the_code_of_this_python_is_at_hand() -> None:
    line = test_the_code_of_this_python_is_at_hand.__code__.co_firstlineno
    assert Lines().at(f"{__file__}:{line}").startswith("def test_the_code_of_this_python_is_at_hand")
