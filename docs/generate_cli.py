"""Write the pages about the command line, from the help of each command."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from docs.markdown import COLUMNS, NOTE
from hotline_analysis.cli import app

_INTRO = """\
# Command line

`TRACE` is a run directory (see `hotline import`), a trace file (`.json`, `.json.gz`, `.json.zst`), a folder or a
pattern of trace files, or several files. Trace files are imported each time; a run directory opens at once. Several
runs that hold different ranks, as the processes of one training write them, are opened as one:
`hotline report run.rank0.hotline run.rank1.hotline`, or `"run.rank*.hotline"`. A `-` stands for a trace from a pipe,
compressed or not: `zstdcat trace.json.zst | hotline report -`.

`hotline query NAME` has the parameters of the answer as options: `--kernel-class` is the parameter `kernel_class`.
`hotline query slowest_ops --help` lists them, and `hotline queries slowest_ops` has the meaning and unit of each
column. Where a number may be NULL, `--limit null` says so. `-p KEY=VALUE` gives the same parameters by name. An
answer that knows no limit is cut by `--limit`, too: to its first rows.

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


def pages() -> dict[str, str]:
    """The text of each page below `docs/cli`: an index, and a page for each command."""
    note = NOTE.format(source="the help of each command")
    names = command_names()
    lines = [note, "", _INTRO]
    lines += [f"* [`hotline {name}`]({name}.md)" for name in names]
    lines += ["", "## hotline", "", *_help([])]
    texts = {"README.md": "\n".join(lines) + "\n"}
    for name in names:
        texts[f"{name}.md"] = "\n".join([note, "", f"# hotline {name}", "", *_help([name])]) + "\n"
    return texts


def _help(command: list[str]) -> list[str]:
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="hotline", env={"COLUMNS": str(COLUMNS)})
    if result.exit_code != 0:
        raise SystemExit(f"hotline {' '.join(command)} --help failed")
    return ["```text", *(line.rstrip() for line in result.output.rstrip().splitlines()), "```"]
