"""The tests that can see a change: `python -m tests.changed [COMMIT]` prints what pytest is to run.

    make test-changed               # since the last commit
    make test-changed SINCE=main    # since another one

What differs from the commit is followed against the arrows: a Python file sees the files that it imports and the
queries, tables and public functions that it names; a query sees the tables that it reads, the macros and the rules. Of
a test that goes over all queries, only the cases of those that can see the change are run (`--of-queries`). Tests that
are nearer to the change come first. What the package does with the headers of all queries (lists, completion) is left
to `make test-kinds`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from hotline_analysis import catalog

ROOT = Path(__file__).parents[1]
_WORD = re.compile(r"\w+")
_STUBS = ("hotline_analysis/__init__.pyi", "hotline_analysis/charts/__init__.pyi")
# One function for each query: who uses one names the query.
_ONE_EACH = ("hotline_analysis/answers/generated.pyi", *_STUBS)
Arrows = Mapping[str, set[str]]


def files(folder: Path = ROOT) -> list[str]:
    """The files of the repository, also those that are not added yet."""
    return _git("ls-files", "--cached", "--others", "--exclude-standard", folder=folder)


def differing(commit: str, folder: Path = ROOT) -> list[str]:
    """The files that are not as in a commit."""
    new = _git("ls-files", "--others", "--exclude-standard", folder=folder)
    return sorted({*_git("diff", "--name-only", commit, folder=folder), *new})


def _git(*command: str, folder: Path) -> list[str]:
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@cache
def arrows() -> Arrows:
    """For each file and `query NAME` of the repository, what it sees."""
    every = files()
    sees: dict[str, set[str]] = defaultdict(set)
    for query in catalog.queries():
        node = f"query {query.name}"
        own = [*query.steps, query]
        sees[node] |= {f"queries/{each.file}" for each in own}
        sees[node] |= {f"query {name}" for table in query.tables for name in _writers().get(table, ())}
        words = {word for each in own for word in _WORD.findall(each.sql.lower())}
        sees[node] |= {f"queries/rules/{name}.csv" for name in catalog.rules().keys() & words}
        sees[node] |= {f"queries/macros/{macro.subject}.sql" for macro in map(catalog.macros().get, words) if macro}
    for macro in catalog.macros().values():
        of_others = {f"queries/macros/{catalog.macros()[name].subject}.sql" for name in macro.uses}
        sees[f"queries/macros/{macro.subject}.sql"] |= of_others
    python = {_module(file): file for file in every if file.endswith(".py")}
    public = _public_names()
    data: dict[Path, set[str]] = defaultdict(set)
    for file in filter(_is_data, every):
        data[Path(file).parent].add(file)
    for file in python.values():
        if file not in _ONE_EACH and (ROOT / file).exists():
            sees[file] |= set(_seen_by((ROOT / file).read_text(encoding="utf-8"), file, python, public))
        if file.startswith("hotline_analysis/"):  # templates, schemas and other data of its part
            sees[file] |= data[Path(file).parent]
    return sees


@cache
def _writers() -> Mapping[str, set[str]]:
    """The queries that make a table or view."""
    found: dict[str, set[str]] = defaultdict(set)
    for query in catalog.queries("annotate", "views"):
        found[query.writes or query.name].add(query.name)
    return found


def _is_data(file: str) -> bool:
    return file.startswith("hotline_analysis/") and not file.endswith((".py", ".pyi"))


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _public_names() -> dict[str, str]:
    """The modules that public names come from."""
    found = {}
    for stub in _STUBS:
        package = Path(stub).parent
        for node in ast.walk(ast.parse((ROOT / stub).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.name] = str(package / (node.module or alias.name).replace(".", "/"))
    return {
        name: f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/__init__.py" for name, path in found.items()
    }


def _seen_by(source: str, file: str, python: Mapping[str, str], public: Mapping[str, str]) -> Iterator[str]:
    tree = ast.parse(source)
    for name in _imported(tree):
        # `from a import b` is the module a.b, or a name in a.
        inner = next((each for each in (name, name.rpartition(".")[0]) if each in python), None)
        if inner is not None and python[inner] not in _ONE_EACH:
            yield python[inner]
    yield from {public[name] for name in _of_facade(tree, public)} - {*_ONE_EACH}
    words = set(_words(tree))
    yield from (f"query {name}" for name in _query_names() & words)
    yield from (f"query {name}" for table in _writers().keys() & words for name in _writers()[table])
    for node in ast.walk(tree) if file.startswith("tests/") else ():  # a test of all queries, or those of some kinds
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "queries":
            kinds = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            yield from (f"queries of {kind}" for kind in kinds or _kinds())
    for folder in Path(file).parents if file.startswith("tests/") else ():
        if (own := str(folder / "conftest.py")) != file and own in python.values():
            yield own


def _of_facade(tree: ast.Module, public: Mapping[str, str]) -> set[str]:
    """The public names that a file uses: `ha.load`, or imported; all of them where it asks for one by a text."""
    called = {"charts"}
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            called |= {each.asname or each.name for each in node.names if each.name == "hotline_analysis"}
        elif isinstance(node, ast.ImportFrom) and node.module in ("hotline_analysis", "hotline_analysis.charts"):
            used |= {each.name for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called:
            used.add(node.attr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and {each.id for each in node.args if isinstance(each, ast.Name)} & called
        ):
            return set(public)
    return used & public.keys()


@cache
def _kinds() -> frozenset[str]:
    return frozenset(query.kind for query in catalog.queries())


@cache
def _query_names() -> frozenset[str]:
    return frozenset(query.name for query in catalog.queries())


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _words(tree: ast.Module) -> Iterator[str]:
    """The names in a file, and the words of its texts, but not of its docstrings."""
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield from _WORD.findall(node.value)


def distances(changed: Iterable[str], sees: Arrows) -> dict[str, int]:
    """How many arrows lie between a change and what can see it."""
    seen_by: dict[str, set[str]] = defaultdict(set)
    for node, others in sees.items():
        for other in others:
            seen_by[other].add(node)
    found = dict.fromkeys(changed, 0)
    waiting = deque(found)
    while waiting:
        node = waiting.popleft()
        for other in sorted(seen_by[node]):
            # All tests of a folder see a change of its conftest, but not of what that imports.
            if other not in found and not (other.endswith("conftest.py") and found[node]):
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def to_run(changed: Iterable[str]) -> list[str]:
    """What pytest is to run for files that have changed; nothing if no test can see them."""
    changed = list(changed)
    found = distances(changed, arrows())
    queries = sorted(node.removeprefix("query ") for node in found if node.startswith("query "))
    kinds = {f"queries of {catalog.get(name).kind}" for name in queries}
    found = distances(kinds, arrows()) | found
    unknown = [file for file in changed if file not in arrows() and not any(file in each for each in arrows().values())]
    if unknown:
        found |= dict.fromkeys(_that_name(unknown), 1)
    tests = [file for file in found if Path(file).name.startswith("test_") and (ROOT / file).exists()]
    tests.sort(key=lambda file: (found[file], file))
    # What Python does, it may do to each query.
    of_queries = [f"--of-queries={','.join(queries)}"] if queries and all(map(_is_of_queries, changed)) else []
    return [*of_queries, *tests] if tests else []


def _is_of_queries(file: str) -> bool:
    """Whether a change of a file changes nothing of what is done with other queries."""
    if not file.endswith(".py"):
        return True
    if not file.startswith("tests/") or not Path(file).name.startswith("test_"):
        return file in _ONE_EACH
    return not (ROOT / file).exists() or ".queries(" not in (ROOT / file).read_text(encoding="utf-8")


def _that_name(others: Iterable[str]) -> Iterator[str]:
    """The tests that name one of these files, or its folder at the top: docs, data and settings."""
    names = {Path(file).name for file in others} | {Path(file).parts[0] for file in others if "/" in file}
    names |= {part for file in others for part in Path(file).parts[1:-1] if file.startswith("tests/")}
    for file in files():
        if file.startswith("tests/") and Path(file).name.startswith("test_") and (ROOT / file).exists():
            text = (ROOT / file).read_text(encoding="utf-8")
            if any(f'"{name}"' in text or f"/{name}" in text for name in names - {"tests", "hotline_analysis"}):
                yield file


if __name__ == "__main__":
    print(*to_run(differing(sys.argv[1] if len(sys.argv) > 1 else "HEAD")), sep="\n")
