"""The line of source code at a place recorded in a trace, to help users recognise the place.

A trace is untrusted, and its report may be shared. A trace must not be able to put the content of arbitrary files into
a page by recording their paths. Therefore only lines of Python code inside functions are shown, only from files that
Python would import, and without string literals and comments.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterable

_PLACE = re.compile(r"(.+\.py):(\d{1,7})")
_LARGEST_FILE = 1_000_000
_MOST_FILES = 200
_LONGEST = 160
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_TEXTS = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))


class Lines:
    """Source lines that this Python would import: below the working directory and the folders of `sys.path`."""

    def __init__(self, folders: Iterable[str] | None = None) -> None:
        names = [os.getcwd(), *sys.path] if folders is None else folders
        whole = (os.path.realpath(name) for name in names if os.path.isdir(name or os.curdir))
        # Without the root of the file system, which contains everything.
        self._folders = [folder for folder in dict.fromkeys(whole) if os.path.dirname(folder) != folder]
        self._files: dict[str, _Code | None] = {}

    def at(self, source: str | None, function: str | None = None) -> str:
        """The line at a place such as `model.py:31`; empty if it is not available or must not be shown.

        With `function`, the line must be inside a function of this name. A line of the function's head returns the
        `def`.
        """
        place = _PLACE.fullmatch(source or "")
        if place is None:
            return ""
        for file in self._candidates(place[1]):
            code = self._read(file)
            if code is not None:
                return code.line(int(place[2]), function)
        return ""

    def _candidates(self, name: str) -> Iterable[str]:
        # Names are checked before the file system is accessed: a path to a network drive, for example, is never
        # touched.
        for folder in self._folders:
            file = os.path.normpath(os.path.join(folder, name))
            if _lies_in(file, folder):
                yield file

    def _read(self, file: str) -> _Code | None:
        if file not in self._files:
            if len(self._files) >= _MOST_FILES:
                return None
            self._files[file] = self._parse(file)
        return self._files[file]

    def _parse(self, file: str) -> _Code | None:
        try:
            real = os.path.realpath(file)
            if not real.endswith(".py") or not any(_lies_in(real, folder) for folder in self._folders):
                return None
            found = os.stat(real)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
                return None
            with open(real, encoding="utf-8-sig", newline="") as opened:
                text = opened.read(_LARGEST_FILE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _Code(text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return None


def _lies_in(file: str, folder: str) -> bool:
    """Whether a file is in a folder, outside its hidden subfolders."""
    inside = file.removeprefix(folder + os.sep)
    return inside != file and not any(part.startswith(".") for part in inside.split(os.sep))


class _Code:
    def __init__(self, text: str) -> None:
        nodes = list(ast.walk(ast.parse(text)))
        self._lines = re.split(r"\r\n|\r|\n", text)
        self._functions = [node for node in nodes if isinstance(node, _Function)]
        self._texts = [
            node
            for node in nodes
            if isinstance(node, _TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        ]

    def line(self, number: int, function: str | None) -> str:
        around = [node for node in self._functions if _head(node) <= number <= (node.end_lineno or 0)]
        if not around:
            return ""
        inner = max(around, key=lambda node: (_head(node), -(node.end_lineno or 0)))
        # Names made by Python, such as <genexpr>, may be anywhere in a function.
        if function is not None and function[:1] != "<" and inner.name != function:
            return ""
        if function is not None and isinstance(inner, ast.ClassDef):
            return ""
        if number < inner.lineno:
            number = inner.lineno
        if isinstance(inner, ast.ClassDef) and number != inner.lineno:
            return ""
        return self._without_texts(number)

    def _without_texts(self, number: int) -> str:
        """The line without comments, with every string literal replaced by an ellipsis."""
        line = self._lines[number - 1].encode()
        spans = []
        for node in self._texts:
            last = node.end_lineno or node.lineno
            if node.lineno <= number <= last:
                begin = node.col_offset if node.lineno == number else 0
                spans.append((begin, (node.end_col_offset or 0) if last == number else len(line)))
        kept, at = b"", 0
        for begin, end in sorted(spans):
            if end > at:
                kept += line[at : max(at, begin)] + "…".encode()
                at = end
        kept += line[at:]
        shown = " ".join(kept.decode(errors="replace").partition("#")[0].split())
        if not shown.strip("…"):
            return ""
        return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _head(node: _Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
