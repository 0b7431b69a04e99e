"""Write the pages of queries and macros from their headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs import generate_tables, markdown
from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.catalog import Query
from hotline_analysis.schema import TABLES

_INTRO = """\
# Queries

Every query is an SQL file below [`queries/`](../../queries). These pages show the header of each file, as
`hotline queries NAME` does. Run a query with `hotline query NAME TRACE --param key=value`, or in Python with
`trace.query(NAME, key=value)`. A few answers are functions over several queries: `hotline query` accepts these
answers, too, and Python has a function for each. See also the [tables](../tables/README.md) and the
[glossary](../glossary.md).
"""

_KINDS: Mapping[catalog.Kind, tuple[str, str]] = {
    "answers": ("Answers", "Each query answers a question about a run."),
    "advice": (
        "Advice",
        "Each query finds wasted time in a step and has a remedy. The answer `advice` runs all these queries and"
        " replays the step without the wasted time: the result is the maximum gain.",
    ),
    "whatif": ("What if", "Each query returns the rows changed by a prediction."),
    "charts": ("Charts", "Each query returns the rows of a chart, limited to a number that can be drawn."),
    "export": ("Export", "Each query returns the events written by an exporter."),
    "views": ("Views", "Views over the tables of all ranks, created when a run is opened."),
    "annotate": (
        "Annotation",
        "Each query builds a table of one rank during import. Private tables serve only later queries and are not"
        " stored in a run. [How a trace is annotated](../annotation.md) lists the queries in order of execution.",
    ),
}


def pages() -> dict[str, str]:
    """The text of each page of the folder `queries`: an index, and a page for each folder of queries."""
    by_page: dict[str, list[Query]] = {}
    for query in documented():
        by_page.setdefault(page_of(query), []).append(query)
    index = [_INTRO]
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
        lines = [f"# {page_title(name)}"]
        lines += [line for query in queries for line in section(query)]
        texts[name] = "\n".join(lines) + "\n"
    return texts


_MACROS_INTRO = """\
Macros used by many queries. Macros are also available in `trace.sql` and `hotline sql`. In other programs, first run
the files of [`queries/macros/`](../../queries/macros)."""


def documented() -> list[Query]:
    """Every query and computed answer, private queries last."""
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
    lines = [f"# Macros: {subject}", ""]
    lines.append(f"From [`{file}`](../../queries/{file}). {_MACROS_INTRO}".replace("\n", " "))
    for macro in macros:
        kind = "A table function" if macro.is_table else "A function"
        lines += ["", f"## {macro.name}", "", f"{kind}: `{macro.name}({', '.join(macro.params)})`"]
        lines += ["", macro.description.replace("\n", " ")]
    return "\n".join(lines) + "\n"


def page_of(query: Query) -> str:
    """The page of a query, relative to the folder `queries`."""
    if query.name in COMPUTED:
        return "answers-functions.md"
    kind, *subject = query.folder.removesuffix(f"/{catalog.PRIVATE}").split("/")
    return f"{'-'.join([kind, *subject])}.md"


def page_title(page: str) -> str:
    kind, _, subject = page.removesuffix(".md").partition("-")
    title = next(title for known, (title, _) in _KINDS.items() if known == kind)
    return f"{title}: {subject.replace('_', ' ')}" if subject else title


def section(query: Query, *, with_columns: bool = False) -> Iterator[str]:
    """The header of a query as Markdown, below its name. Tables have their columns on another page."""
    yield from ["", f"## {query.name}", "", query.summary]
    if query.description:
        yield from ["", query.description]
    if query.do:
        predicted = f" `hotline whatif TRACE {query.scenario}` predicts the gain." if query.scenario else ""
        yield from ["", f"Finding: {query.what}. Remedy: {query.do}{predicted}"]
    if query.sql:
        file = f"[`{query.file}`](../../queries/{query.file})"
        private = "Private. " if query.is_private else ""
        builds = f" Builds `{query.writes}`." if query.writes not in (None, query.name) else ""
        yield from ["", f"{private}{file} reads {', '.join(map(_table_reference, query.tables))}.{builds}"]
    else:
        yield from ["", f"A function over several queries: `hotline_analysis.{query.name}`."]
    if query.steps:
        yield from ["", "The query runs in steps. Each step is a temporary table:", ""]
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
    is_table = query.name in TABLES and query.name not in COMPUTED
    if query.columns and query.kind != "advice" and (with_columns or not is_table):
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
