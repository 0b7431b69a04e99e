"""A folder of SQL files → its queries with their steps, and its macros in dependency order."""

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
    """The queries of a folder, sorted by name. Steps are only in their query."""
    by_name: dict[str, Query] = {}
    for kind in KINDS:
        if root.joinpath(kind).is_dir():
            for query in _of_folder(root.joinpath(kind), kind, kind):
                for entry in (query, *query.steps):
                    if entry.name in by_name:
                        raise ValueError(f"{entry.file}: {by_name[entry.name].file} also has this name")
                    by_name[entry.name] = entry
    steps = {step.name for query in by_name.values() for step in query.steps}
    return {name: query for name, query in sorted(by_name.items()) if name not in steps}


def read_macros(root: Traversable) -> Mapping[str, Macro]:
    """The macros of a folder in dependency order."""
    macros: dict[str, Macro] = {}
    for file in sorted(root.joinpath("macros").iterdir(), key=lambda file: file.name):
        subject, dot, ending = file.name.partition(".")
        for macro in macros_of(subject, file.read_text(encoding="utf-8")) if dot + ending == ".sql" else ():
            if macro.name in macros:
                raise ValueError(f"macros/{file.name}: duplicate macro {macro.name}")
            macros[macro.name] = macro
    uses = {
        name: sorted((macros.keys() & set(re.findall(r"\w+", COMMENT.sub("", macro.sql)))) - {name})
        for name, macro in macros.items()
    }
    sorted_macros: dict[str, Macro] = {}
    for name in TopologicalSorter(uses).static_order():
        dependencies = [dependency for direct in uses[name] for dependency in (*sorted_macros[direct].uses, direct)]
        sorted_macros[name] = replace(macros[name], uses=tuple(dict.fromkeys(dependencies)))
    return sorted_macros


def _of_folder(folder: Traversable, path: str, kind: Kind) -> Iterator[Query]:
    """The queries of a folder and its subfolders. A folder with a file of its own name is a query with steps."""
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
        step_name: parse(step_name, kind, f"{path}/{name}", text, is_step=True)
        for step_name, text in texts.items()
        if step_name != name
    }
    taken = {param for step in steps.values() for param in step.takes}
    query = parse(name, kind, path, texts[name], taken=taken)
    where = f"{path}/{name}"
    param_names = {param.name for param in query.params}
    for step in steps.values():
        if unknown := set(step.takes) - param_names:
            raise ValueError(f"{where}/{step.name}.sql: {name} has no parameter {', '.join(sorted(unknown))}")
    if idle := set(steps) - {step_name for step in (*steps.values(), query) for step_name in step.reads}:
        raise ValueError(f"{where}: unread steps: {', '.join(sorted(idle))}")
    order = TopologicalSorter(
        {step_name: sorted(set(step.reads) & set(steps)) for step_name, step in sorted(steps.items())}
    )
    try:
        return replace(query, steps=tuple(steps[step_name] for step_name in order.static_order()))
    except CycleError as error:
        raise ValueError(f"{where}: steps read each other: {', '.join(error.args[1])}") from None
