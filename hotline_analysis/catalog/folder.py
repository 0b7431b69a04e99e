"""A folder of SQL files → its queries, each with its steps, and its macros, in the order in which they are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from hotline_analysis.catalog.header import COMMENT, macros_of, parse
from hotline_analysis.catalog.query import KINDS, Kind, Macro, Query

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def read_queries(root: Traversable) -> dict[str, Query]:
    """The queries of a folder, sorted by name; steps are in their query alone."""
    found: dict[str, Query] = {}
    for kind in KINDS:
        if root.joinpath(kind).is_dir():
            for query in _of_folder(root.joinpath(kind), kind, kind):
                for each in (query, *query.steps):
                    if each.name in found:
                        raise ValueError(f"{each.file}: there is {found[each.name].file} of this name, too")
                    found[each.name] = each
    steps = {step.name for query in found.values() for step in query.steps}
    return {name: query for name, query in sorted(found.items()) if name not in steps}


def read_macros(root: Traversable) -> Mapping[str, Macro]:
    """The macros of a folder, each after those that it uses."""
    found: dict[str, Macro] = {}
    for file in sorted(root.joinpath("macros").iterdir(), key=lambda file: file.name):
        subject, dot, ending = file.name.partition(".")
        for macro in macros_of(subject, file.read_text(encoding="utf-8")) if dot + ending == ".sql" else ():
            if macro.name in found:
                raise ValueError(f"macros/{file.name}: there is another macro {macro.name}")
            found[macro.name] = macro
    uses = {
        name: sorted((found.keys() & set(re.findall(r"\w+", COMMENT.sub("", macro.sql)))) - {name})
        for name, macro in found.items()
    }
    ordered: dict[str, Macro] = {}
    for name in TopologicalSorter(uses).static_order():
        of_these = [used for direct in uses[name] for used in (*ordered[direct].uses, direct)]
        ordered[name] = replace(found[name], uses=tuple(dict.fromkeys(of_these)))
    return ordered


def _of_folder(folder: Traversable, path: str, kind: Kind) -> Iterator[Query]:
    """The queries of a folder and of those in it. A folder with a file of its own name is a query with its steps."""
    for entry in folder.iterdir():
        name = entry.name.removesuffix(".sql")
        if name != entry.name:
            yield parse(name, kind, path, entry.read_text(encoding="utf-8"))
        elif entry.is_dir() and entry.joinpath(f"{name}.sql").is_file():
            yield _with_steps(entry, name, kind, path)
        elif entry.is_dir():
            yield from _of_folder(entry, f"{path}/{name}", kind)


def _with_steps(folder: Traversable, name: str, kind: Kind, path: str) -> Query:
    texts = {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    steps = {
        each: parse(each, kind, f"{path}/{name}", text, is_step=True) for each, text in texts.items() if each != name
    }
    taken = {param for step in steps.values() for param in step.takes}
    query = parse(name, kind, path, texts[name], taken=taken)
    where = f"{path}/{name}"
    known = {param.name for param in query.params}
    for step in steps.values():
        if odd := set(step.takes) - known:
            raise ValueError(f"{where}/{step.name}.sql: {name} has no parameter {', '.join(sorted(odd))}")
    if idle := set(steps) - {each for step in (*steps.values(), query) for each in step.reads}:
        raise ValueError(f"{where}: nothing reads {', '.join(sorted(idle))}")
    order = TopologicalSorter({each: sorted(set(step.reads) & set(steps)) for each, step in sorted(steps.items())})
    try:
        return replace(query, steps=tuple(steps[each] for each in order.static_order()))
    except CycleError as error:
        raise ValueError(f"{where}: steps read each other: {', '.join(error.args[1])}") from None
