"""Write the pages about queries and macros, from their headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs import generate_tables, markdown
from docs.markdown import NOTE
from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.catalog import Query
from hotline_analysis.schema import TABLES

_INTRO = """\
# Queries

Every question is one SQL file below [`queries/`](../../queries), and these pages show what the header of each file
says, as `hotline queries NAME` does. Run one with `hotline query NAME TRACE --param key=value`, or in Python with
`trace.query(NAME, key=value)`. A few answers are functions over several queries: call those in Python. The tables that
queries read are described in [tables](../tables/README.md), the words in the [glossary](../glossary.md).
"""

_KINDS: Mapping[catalog.Kind, tuple[str, str]] = {
    "answers": ("Answers", "Each answers one question about a run."),
    "advice": (
        "Advice",
        "Each query finds time of a step that is spent for nothing, and says what to do. The answer `advice` asks them"
        " all, and tells how much shorter the step gets at most, by replaying it without what a query found.",
    ),
    "whatif": ("What if", "Each gives predictions the rows that they change."),
    "charts": ("Charts", "Each gives one chart its rows, of which there are never too many to draw."),
    "export": ("Export", "Each gives an exporter the events that it writes."),
    "views": ("Views", "Made over the tables of all ranks when a run is opened."),
    "annotate": (
        "Annotation",
        "Each builds one table of one rank during import. Tables marked as private only serve those after them, and no"
        " run holds them. [How a trace is annotated](../annotation.md) lists them in the order in which they run.",
    ),
}


def pages() -> dict[str, str]:
    """The text of each page below `docs/queries`: an index, and a page for each folder of queries."""
    by_page: dict[str, list[Query]] = {}
    for query in documented():
        by_page.setdefault(page_of(query), []).append(query)
    index = [NOTE.format(source="the headers of queries/**/*.sql"), "", _INTRO]
    for kind, (title, meaning) in _KINDS.items():
        index += [f"## {title}", "", meaning, ""]
        for name, queries in sorted(by_page.items()):
            if name.partition("-")[0].removesuffix(".md") == kind:
                links = [f"[`{query.name}`]({name}#{query.name})" for query in queries]
                index.append(f"* [{page_title(name)}]({name}): {', '.join(links)}")
        index.append("")
    index += ["## Macros", "", _MACROS_INTRO, ""]
    macros = _macros()
    for subject, of_subject in macros.items():
        links = [f"[`{macro.name}`](macros-{subject}.md#{macro.name})" for macro in of_subject]
        index.append(f"* [Macros: {subject}](macros-{subject}.md): {', '.join(links)}")
    texts = {"README.md": "\n".join(index).rstrip() + "\n"}
    texts |= {f"macros-{subject}.md": _macros_page(subject, of_subject) for subject, of_subject in macros.items()}
    for name, queries in by_page.items():
        lines = [NOTE.format(source="the headers of queries/**/*.sql"), "", f"# {page_title(name)}"]
        lines += [line for query in queries for line in section(query)]
        texts[name] = "\n".join(lines) + "\n"
    return texts


_MACROS_INTRO = """\
What many queries have in common. `trace.sql` and `hotline sql` know them, too; elsewhere, run the files of
[`queries/macros/`](../../queries/macros) first."""


def documented() -> list[Query]:
    """Every query and computed answer, private ones last."""
    found = [*catalog.queries(), *(answer.as_query() for answer in COMPUTED.values())]
    return sorted(found, key=lambda query: (query.is_private, query.name))


def _macros() -> dict[str, list[catalog.Macro]]:
    """The macros of each subject."""
    subjects: dict[str, list[catalog.Macro]] = {}
    for _, macro in sorted(catalog.macros().items()):
        subjects.setdefault(macro.subject, []).append(macro)
    return dict(sorted(subjects.items()))


def _macros_page(subject: str, macros: list[catalog.Macro]) -> str:
    file = f"macros/{subject}.sql"
    lines = [NOTE.format(source=f"queries/{file}"), "", f"# Macros: {subject}", ""]
    lines.append(f"Of [`{file}`](../../queries/{file}). {_MACROS_INTRO}".replace("\n", " "))
    for macro in macros:
        kind = "A table function" if macro.is_table else "A function"
        lines += ["", f"## {macro.name}", "", f"{kind}: `{macro.name}({', '.join(macro.params)})`"]
        lines += ["", macro.description.replace("\n", " ")]
    return "\n".join(lines) + "\n"


def page_of(query: Query) -> str:
    """The page of a query, seen from `docs/queries`."""
    if query.name in COMPUTED:
        return "answers-functions.md"
    kind, *subject = query.folder.removesuffix(f"/{catalog.PRIVATE}").split("/")
    return f"{'-'.join([kind, *subject])}.md"


def page_title(page: str) -> str:
    kind, _, subject = page.removesuffix(".md").partition("-")
    title = next(title for known, (title, _) in _KINDS.items() if known == kind)
    return f"{title}: {subject.replace('_', ' ')}" if subject else title


def section(query: Query) -> Iterator[str]:
    """What the header of a query says, below a heading of its name."""
    yield from ["", f"## {query.name}", "", query.summary]
    if query.description:
        yield from ["", query.description]
    if query.do:
        predicted = f" `hotline whatif TRACE {query.scenario}` predicts what that gains." if query.scenario else ""
        yield from ["", f"It says: {query.what}. {query.do}{predicted}"]
    if query.sql:
        file = f"[`{query.file}`](../../queries/{query.file})"
        private = "Private. " if query.is_private else ""
        builds = f" Builds `{query.writes}`." if query.writes not in (None, query.name) else ""
        yield from ["", f"{private}{file} reads {', '.join(map(_table_reference, query.tables))}.{builds}"]
    else:
        yield from ["", f"A function over several queries: `hotline_analysis.{query.name}`."]
    if query.steps:
        yield from ["", "It runs in steps, each a table that exists while it runs:", ""]
        yield from (
            f"{number}. [`{step.name}`](../../queries/{step.folder}/{step.name}.sql): {step.summary}"
            for number, step in enumerate(query.steps, start=1)
        )
    if query.params:
        rows = [
            (
                f"`{param.name}`",
                param.type + (f": {param.allowed}" if param.allowed else ""),
                "required" if param.required else _literal(param.default),
                param.description,
            )
            for param in query.params
        ]
        yield ""
        yield from markdown.table(("parameter", "type", "default", "meaning"), rows)
    if query.columns and query.kind != "advice" and (query.name not in TABLES or query.name in COMPUTED):
        yield ""
        yield from markdown.table(
            ("column", "type", "meaning"),
            [(f"`{column.name}`", f"`{column.type}`", column.description) for column in query.columns],
        )


def _table_reference(name: str) -> str:
    return f"[`{name}`](../tables/{generate_tables.place(name)})" if name in TABLES else f"`{name}`"


def _literal(value: catalog.Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value!r}`"
