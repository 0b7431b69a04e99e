"""Write the pages of tables from the schema."""

from __future__ import annotations

from collections.abc import Iterator

from docs import markdown
from hotline_analysis import catalog
from hotline_analysis.schema import TABLES, Table

_INTRO = """\
# Tables

The tables of a run directory, available in `hotline sql` and `Trace.sql`. `hotline schema` shows the same list.

* **Times** (`_ns`) are integer nanoseconds, exact to the last digit in the file, on the clock of the trace file. Add
  `rank_info.base_time_ns` for nanoseconds since 1970.
* **Intervals** are half-open: `[start_ns, end_ns)`.
* **Sizes** (`_bytes`) are bytes, **shares** (`_pct`) go from 0 to 100.
* **`rank`** (BIGINT) is the first column of every table: the rank of the process, from the name of the partition
  folder.
* **`event_id`** is the event's position in the file's `traceEvents` array, from 0. `rank` and `event_id` identify an
  event in all tables.
* **`***`** replaces likely secrets: a key, password or token of a service, recognised by the name of the value
  (`HF_TOKEN`, `password`) or by the form (`ghp_…`, a password in a URL). Some tools store the environment of the
  process in a trace; runs, exports and reports do not contain recognised secrets. `hotline import --keep-secrets` keeps
  secrets in `rank_info`, `device` and `event_args`, and in exports of these tables; a report never shows secrets.
  Secrets with another name and form are not recognised, and the trace file itself is not changed.
* **NULL** means that a value is unknown or does not apply. The description of the column says which.

A run directory has a file `<table>/rank=<rank>/data.parquet` for each table, and a `manifest.json`. With more than 16
ranks, a file `<table>/from-<rank>/data.parquet` contains the rows of many ranks, with `rank` as the first column;
`joined` in the manifest lists the first rank of each of these files. Any Parquet engine can read both. Views are not
stored: a `Trace` creates the views when the run is opened.
"""

_KINDS = {
    "read": ("Read from the file", "The content of the trace file, without interpretation."),
    "derived": (
        "Derived",
        "Tables added by the annotation. Each table is built by the query of the same name, see"
        " [queries](../queries/README.md).",
    ),
    "view": ("Views", "Views are created when a run is opened."),
}


def pages() -> dict[str, str]:
    """The text of each page of the folder `tables`: an index, and a page for each subject."""
    by_page: dict[str, list[Table]] = {}
    for table in TABLES.values():
        by_page.setdefault(_page_of(table), []).append(table)
    index = [_INTRO]
    for kind, (title, meaning) in _KINDS.items():
        index += [f"## {title}", "", meaning, ""]
        for name, tables in sorted(by_page.items()):
            if tables[0].kind == kind:
                links = [f"[`{table.name}`]({name}#{table.name})" for table in tables]
                index.append(f"* [{_title(name)}]({name}): {', '.join(links)}")
        index.append("")
    texts = {"README.md": "\n".join(index).rstrip() + "\n"}
    for name, tables in by_page.items():
        lines = [f"# {_title(name)}"]
        lines += ["", _KINDS[tables[0].kind][1]]
        lines += [line for table in tables for line in _section(table)]
        texts[name] = "\n".join(lines) + "\n"
    return texts


def place(name: str) -> str:
    """The location of a table's description, relative to the folder `tables`."""
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
