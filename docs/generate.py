"""Write the generated parts of the documentation, or check that they are up to date (`--check`).

The functions of answers that are one query each, and the lists of public names, come from `generate_api.py`.
`docs/tables.md` comes from the schema, `docs/queries/` from the headers of the queries, `docs/cli.md` from `--help`.
The pictures show the demo trace. In every other page, a fenced block that follows a line `<!-- output of: COMMAND -->`
shows what the command prints.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

import typer
from typer.testing import CliRunner

import hotline_analysis as ha
from docs import generate_api
from hotline_analysis import catalog
from hotline_analysis.annotation.pipeline import PIPELINE
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.catalog import Query
from hotline_analysis.cli import app
from hotline_analysis.schema import TABLES, Table

ROOT = Path(__file__).parents[1]
COLUMNS = 110
EXAMPLE = re.compile(
    r"^<!-- output of: (?P<command>.+?) -->\n(?P<fence>```\w*)\n(?P<output>.*?)^```$", re.DOTALL | re.MULTILINE
)
PIPELINE_LIST = re.compile(r"(?P<begin><!-- the pipeline -->\n).*?(?P<end><!-- end of the pipeline -->)", re.DOTALL)
MARKER = re.compile(r"^<!-- output of: ", re.MULTILINE)
NOTE = "<!-- Written by docs/generate.py from {source}. Change that, then run `make docs`. -->"


def main(argv: Sequence[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    stale = dict(stale_pages())
    for path, text in stale.items():
        name = path.relative_to(ROOT).as_posix()
        if argv:
            print(f"{name} is stale; run `make docs`")
            print("\n".join([*_difference(path, text)][:20]))
        elif text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        else:
            path.unlink()
            print(f"removed {name}")
    if not argv:
        draw_pictures(ROOT / "docs/pictures")
    return 1 if argv and stale else 0


def draw_pictures(folder: Path) -> None:
    """Draw the pictures of the demo trace. `--check` leaves them out: they depend on the fonts of the machine."""
    folder.mkdir(exist_ok=True)
    with ha.load(ha.demo_trace()) as trace:
        ha.charts.timeline(trace).save(folder / "timeline.svg")
        ha.charts.modules(ha.modules(trace)).properties(background="white").save(folder / "modules.svg")


def stale_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page that differs from what it should be, and its new text."""
    generated = {ROOT / "docs/tables.md": tables_page(), ROOT / "docs/cli.md": cli_page()}
    generated |= {
        ROOT / "hotline_analysis/answers/generated.py": formatted(generate_api.answers_module()),
        ROOT / "hotline_analysis/__init__.pyi": generate_api.stub(),
        ROOT / "hotline_analysis/charts/__init__.pyi": generate_api.charts_stub(),
    }
    generated |= {ROOT / "docs/queries" / name: text for name, text in query_pages().items()}
    written = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path, text in generated.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path, text
    for path in sorted((ROOT / "docs/queries").glob("*.md")):
        if path not in generated:
            yield path, ""  # its subject is gone
    for path in written:
        if path in generated:
            continue
        old = path.read_text(encoding="utf-8")
        if (new := with_outputs(old)) != old:
            yield path, new


def formatted(source: str) -> str:
    """Python code as the linter wants it."""
    command = [str(Path(sys.executable).parent / "ruff"), "format", "--stdin-filename", "generated.py", "-"]
    return subprocess.run(command, input=source, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout


def _difference(path: Path, text: str) -> Iterator[str]:
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return unified_diff(old, text.splitlines(), "in the repository", "as generated", lineterm="")


# --- tables ----------------------------------------------------------------------------------------------------------

_TABLES_INTRO = """\
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

_TABLE_KINDS = {
    "read": ("Read from the file", "What the trace says, without interpretation."),
    "derived": (
        "Derived",
        "What the annotation adds. Each is built by the query of the same name, see [queries](queries/README.md).",
    ),
    "view": ("Views", "Made when a run is opened."),
}


def tables_page() -> str:
    lines = [NOTE.format(source="hotline_analysis/schema.py"), "", _TABLES_INTRO]
    for kind, (title, _) in _TABLE_KINDS.items():
        names = [f"[`{table.name}`](#{table.name})" for table in TABLES.values() if table.kind == kind]
        lines.append(f"* {title}: {', '.join(names)}")
    for kind, (title, meaning) in _TABLE_KINDS.items():
        lines += ["", f"## {title}", "", meaning]
        for table in TABLES.values():
            if table.kind == kind:
                lines += _table_section(table)
    return "\n".join(lines) + "\n"


def _table_section(table: Table) -> Iterator[str]:
    yield from ["", f"### {table.name}", "", table.doc, ""]
    yield from _markdown_table(
        ("column", "type", "meaning"),
        [(f"`{column.name}`", column.type, column.description) for column in table.columns],
    )


# --- queries ---------------------------------------------------------------------------------------------------------

_QUERIES_INTRO = """\
# Queries

Every question is one SQL file below [`queries/`](../../queries), and these pages show what the header of each file
says, as `hotline queries NAME` does. Run one with `hotline query NAME TRACE --param key=value`, or in Python with
`trace.query(NAME, key=value)`. A few answers are functions over several queries: call those in Python. The tables that
queries read are described in [tables](../tables.md), the words in the [glossary](../glossary.md).
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


def query_pages() -> dict[str, str]:
    """The text of each page below `docs/queries`: an index, and a page for each folder of queries."""
    pages: dict[str, list[Query]] = {}
    found = [*catalog.queries(), *(answer.as_query() for answer in COMPUTED.values())]
    for query in sorted(found, key=lambda query: (query.is_private, query.name)):
        pages.setdefault(_page_of(query), []).append(query)
    index = [NOTE.format(source="the headers of queries/**/*.sql"), "", _QUERIES_INTRO]
    for kind, (title, meaning) in _KINDS.items():
        index += [f"## {title}", "", meaning, ""]
        for name, queries in sorted(pages.items()):
            if name.partition("-")[0].removesuffix(".md") == kind:
                links = [f"[`{query.name}`]({name}#{query.name})" for query in queries]
                index.append(f"* [{_title(name)}]({name}): {', '.join(links)}")
        index.append("")
    index += ["## Macros", "", _MACROS_INTRO, "", f"* [Macros](macros.md): {', '.join(_macro_links())}", ""]
    texts = {"README.md": "\n".join(index).rstrip() + "\n", "macros.md": _macros_page()}
    for name, queries in pages.items():
        lines = [NOTE.format(source="the headers of queries/**/*.sql"), "", f"# {_title(name)}"]
        lines += [line for query in queries for line in _query_section(query)]
        texts[name] = "\n".join(lines) + "\n"
    return texts


_MACROS_INTRO = """\
What many queries have in common. `trace.sql` and `hotline sql` know them, too; elsewhere, run the files of
[`queries/macros/`](../../queries/macros) first."""


def _macro_links() -> list[str]:
    return [f"[`{name}`](macros.md#{name})" for name in sorted(catalog.macros())]


def _macros_page() -> str:
    lines = [NOTE.format(source="queries/macros/*.sql"), "", "# Macros", "", _MACROS_INTRO]
    for name, macro in sorted(catalog.macros().items()):
        file = f"macros/{macro.subject}.sql"
        kind = "A table function" if macro.is_table else "A function"
        lines += [
            "",
            f"## {name}",
            "",
            f"`{name}({', '.join(macro.params)})`",
            "",
            macro.description.replace("\n", " "),
        ]
        lines += ["", f"{kind} of [`{file}`](../../queries/{file})."]
    return "\n".join(lines) + "\n"


def _page_of(query: Query) -> str:
    if query.name in COMPUTED:
        return "answers-functions.md"
    kind, *subject = query.folder.removesuffix(f"/{catalog.PRIVATE}").split("/")
    return f"{'-'.join([kind, *subject])}.md"


def _title(page: str) -> str:
    kind, _, subject = page.removesuffix(".md").partition("-")
    title = next(title for known, (title, _) in _KINDS.items() if known == kind)
    return f"{title}: {subject.replace('_', ' ')}" if subject else title


def _query_section(query: Query) -> Iterator[str]:
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
        yield from _markdown_table(("parameter", "type", "default", "meaning"), rows)
    if query.columns and query.kind != "advice" and (query.name not in TABLES or query.name in COMPUTED):
        yield ""
        yield from _markdown_table(
            ("column", "type", "meaning"),
            [(f"`{column.name}`", column.type, column.description) for column in query.columns],
        )


def _table_reference(name: str) -> str:
    return f"[`{name}`](../tables.md#{name})" if name in TABLES else f"`{name}`"


def _literal(value: catalog.Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value!r}`"


# --- the command line ------------------------------------------------------------------------------------------------


_CLI_INTRO = """\
# Command line

`TRACE` is a run directory (see `hotline import`), a trace file (`.json`, `.json.gz`, `.json.zst`), a folder or a
pattern of trace files, or several files. Trace files are imported each time; a run directory opens at once. Several
runs that hold different ranks, as the processes of one training write them, are opened as one:
`hotline report run.rank0.hotline run.rank1.hotline`, or `"run.rank*.hotline"`. A `-` stands for a trace from a pipe,
compressed or not: `zstdcat trace.json.zst | hotline report -`.

`hotline query NAME` has the parameters of the answer as options: `--kernel-class` is the parameter `kernel_class`.
`hotline query slowest_ops --help` lists them, and `hotline queries slowest_ops` has the meaning and unit of each
column. Where a number may be NULL, `--limit null` says so. `-p KEY=VALUE` gives the same parameters by name.

`hotline --install-completion` lets the shell complete commands, options, and names of answers and tables.

Results go to stdout; errors and warnings go to stderr, one line each. The exit status is 0 on success, 1 after an
error, 2 for wrong usage and 130 after Ctrl-C.

Tables for people use units (sizes in KiB, MiB and GiB, powers of 1024 as in PyTorch's memory messages; bandwidths in
GB/s, 10^9 bytes per second), shorten long names in the middle and end after 100 rows; `--json` and `--csv` give all
rows, exact numbers and complete names. In JSON, integers have all their digits (more than 38 are an error); a decimal
fraction that no double equals is text, and what is no number (NaN, infinity) is null. `NO_COLOR` turns colours off,
`COLUMNS` sets the width.

With `-o FILE` the ending of the name says the form, and an ending that stands for none is an error. An option such as
`--json` or `--format` counts more than the ending. A name without an ending, a pipe or a device gets what the
terminal would. `-o -` prints: the answer, the page of a `timeline` or `chart`, or the trace of
`export --format perfetto`. Where nothing could be printed, it is an error.

| command | endings |
| --- | --- |
| `report` | `.txt`, `.md`, `.json`, `.html` |
| `diff` | `.txt`, `.md`, `.json`; with `--by` those of `query` |
| `query`, `sql` | `.txt`, `.json`, `.csv`, `.parquet` |
| `timeline`, `chart` | `.html`, `.svg`, `.png`, `.json` |
| `export --format perfetto` | `.json`, `.gz` |
"""


def command_names() -> list[str]:
    """Return the names of all commands, in the order of `hotline --help`."""
    group = typer.main.get_command(app)
    return list(getattr(group, "commands"))  # noqa: B009  # the class that has it is private to typer


def cli_page() -> str:
    names = command_names()
    lines = [NOTE.format(source="the help of each command"), "", _CLI_INTRO]
    lines += [f"* [`hotline {name}`](#hotline-{name})" for name in names]
    lines += ["", "## hotline", "", *_help([])]
    for name in names:
        lines += ["", f"## hotline {name}", "", *_help([name])]
    return "\n".join(lines) + "\n"


def _help(command: list[str]) -> list[str]:
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="hotline", env={"COLUMNS": str(COLUMNS)})
    if result.exit_code != 0:
        raise SystemExit(f"hotline {' '.join(command)} --help failed")
    return ["```text", *(line.rstrip() for line in result.output.rstrip().splitlines()), "```"]


# --- examples in pages -----------------------------------------------------------------------------------------------


def pipeline_list() -> str:
    """The queries of the annotation, in the order in which they run."""
    pages = {query.name: _page_of(query) for query in catalog.queries("annotate")}
    lines = []
    for number, stage in enumerate(PIPELINE, start=1):
        links = ", ".join(f"[`{name}`](queries/{pages[name]}#{name})" for name in stage.queries)
        what = stage.condition or catalog.get(stage.queries[0]).summary
        lines.append(f"{number}. {links}: {what[:1].lower()}{what[1:].rstrip('.')}.")
    return "\n".join(lines) + "\n"


def with_outputs(page: str) -> str:
    """Return the page with each example's output as the command prints it now, and the order of the tables."""
    page = PIPELINE_LIST.sub(lambda match: f"{match['begin']}{pipeline_list()}{match['end']}", page)
    if len(MARKER.findall(page)) != len(EXAMPLE.findall(page)):
        raise SystemExit("a line `<!-- output of: … -->` must be followed by a fenced block")
    return EXAMPLE.sub(
        lambda match: f"<!-- output of: {match['command']} -->\n{match['fence']}\n{run_example(match['command'])}```",
        page,
    )


def run_example(command: str) -> str:
    """Run a command in the root of the repository and return what it prints, without trailing spaces."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    hidden = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": path, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "PYTHONUTF8": "1"}
    arguments = shlex.split(command)
    try:
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"`{command}` failed: {error}") from None
    if done.returncode != 0:
        raise SystemExit(f"`{command}` failed with exit status {done.returncode}: {done.stderr.strip()}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.rstrip().splitlines())


# --- Markdown --------------------------------------------------------------------------------------------------------


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headers)} |"
    yield f"|{'---|' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
