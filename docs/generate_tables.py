"""Write the pages about tables, from the schema."""

from __future__ import annotations

from collections.abc import Iterator

from docs import markdown
from docs.markdown import NOTE
from hotline_analysis import catalog
from hotline_analysis.schema import TABLES, Table

_INTRO = """\
# Tables

What a run directory holds, and what `hotline sql` and `Trace.sql` can ask about. `hotline schema` shows the same.

* **Times** (`_ns`) are integer nanoseconds, exact to the last digit in the file, on the clock of the trace file. Add
  `rank_info.base_time_ns` for nanoseconds since 1970.
* **Intervals** are half-open: `[start_ns, end_ns)`.
* **Sizes** (`_bytes`) are bytes, **shares** (`_pct`) go from 0 to 100.
* **`rank`** (BIGINT) is the first column of every table: the rank of the process, from the name of the partition
  folder.
* **`event_id`** is the event's position in the file's `traceEvents` array, from 0. With `rank` it identifies an event,
  in all tables.
* **`***`** stands for what looks like a secret: a key, password or token of a service, told by the name of the value
  (`HF_TOKEN`, `password`) or by its form (`ghp_…`, a password in a URL). Some tools store the environment of the
  process in a trace; a run, an export and a report hold no secret of it. `hotline import --keep-secrets` keeps them in
  `rank_info`, `device` and `event_args`, and in what is exported of these; a report never shows them. What has neither
  such a name nor such a form is not found, and the trace file itself stays as it is.
* **NULL** means that a value is unknown or does not apply; each column says which.

A run directory is `<table>/rank=<rank>/data.parquet` for each table, and a `manifest.json`. With more than 16 ranks,
the rows of many ranks are in one file, `<table>/from-<rank>/data.parquet`, behind a column `rank`; `joined` in the
manifest names the first rank of each such file. Any engine reads both. The views are not stored: a `Trace` makes them
when it opens the run.
"""

_KINDS = {
    "read": ("Read from the file", "What the trace says, without interpretation."),
    "derived": (
        "Derived",
        "What the annotation adds. Each is built by the query of the same name, see [queries](../queries/README.md).",
    ),
    "view": ("Views", "Made when a run is opened."),
}


def pages() -> dict[str, str]:
    """The text of each page below `docs/tables`: an index, and a page for each subject."""
    by_page: dict[str, list[Table]] = {}
    for table in TABLES.values():
        by_page.setdefault(_page_of(table), []).append(table)
    index = [NOTE.format(source="hotline_analysis/schema.py"), "", _INTRO]
    for kind, (title, meaning) in _KINDS.items():
        index += [f"## {title}", "", meaning, ""]
        for name, tables in sorted(by_page.items()):
            if tables[0].kind == kind:
                links = [f"[`{table.name}`]({name}#{table.name})" for table in tables]
                index.append(f"* [{_title(name)}]({name}): {', '.join(links)}")
        index.append("")
    texts = {"README.md": "\n".join(index).rstrip() + "\n"}
    for name, tables in by_page.items():
        lines = [NOTE.format(source="hotline_analysis/schema.py"), "", f"# {_title(name)}"]
        lines += ["", _KINDS[tables[0].kind][1]]
        lines += [line for table in tables for line in _section(table)]
        texts[name] = "\n".join(lines) + "\n"
    return texts


def place(name: str) -> str:
    """Where a table is described, seen from `docs/tables`."""
    return f"{_page_of(TABLES[name])}#{name}"


def _page_of(table: Table) -> str:
    if table.kind == "read":
        return "read.md"
    return f"{table.kind}-{catalog.get(table.name).folder.split('/')[1]}.md"


def _title(page: str) -> str:
    kind, _, subject = page.removesuffix(".md").partition("-")
    title = _KINDS[kind][0]
    return f"{title}: {subject}" if subject else title


def _section(table: Table) -> Iterator[str]:
    yield from ["", f"## {table.name}", "", table.doc, ""]
    yield from markdown.table(
        ("column", "type", "meaning"),
        [(f"`{column.name}`", f"`{column.type}`", column.description) for column in table.columns],
    )
