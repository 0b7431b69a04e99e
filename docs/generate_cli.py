"""Write the command-line pages from the help of each command."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from docs.markdown import COLUMNS
from hotline_analysis.cli import app

_INTRO = """\
# Command line

`TRACE` is one of:

* a run directory (see `hotline import`), which opens at once;
* a trace file (`.json`, `.json.gz`, `.json.zst`) or an export of Nsight Systems (`.sqlite`), imported each time;
* a folder or pattern of trace files, or several files;
* several runs with different ranks, as written by the processes of one training:
  `hotline report run.rank0.hotline run.rank1.hotline`, or `"run.rank*.hotline"`;
* `-` for a trace from a pipe, compressed or not: `zstdcat trace.json.zst | hotline report -`.

`hotline query NAME` has the parameters of the answer as options: `--kernel-class` is the parameter `kernel_class`.
`hotline query slowest_ops --help` lists the options, and `hotline queries slowest_ops` shows the meaning and unit of
each column. `-p KEY=VALUE` also sets a parameter. The value `null` means NULL, if the parameter allows NULL:
`--limit null`. For an answer without a parameter `limit`, `--limit` shows the first rows.

`hotline --install-completion` lets the shell complete commands, options, and names of answers and tables.

Results go to stdout; errors and warnings go to stderr, one line each. The exit status is 0 on success, 1 after an
error, 2 for wrong usage and 130 after Ctrl-C.

Tables for people use units (sizes in KiB, MiB and GiB, powers of 1024 as in PyTorch's memory messages; bandwidths in
GB/s, 10^9 bytes per second), shorten long names in the middle and end after 100 rows. `--json` and `--csv` have all
rows, exact numbers and complete names. In JSON, integers have all digits (more than 38 digits are an error). A decimal
fraction without an equal double is a text, and NaN and infinity are null. `NO_COLOR` turns colours off, `COLUMNS` sets
the width.

With `-o FILE`, the file name's ending selects the format; an unknown ending is an error. An option such as `--json` or
`--format` overrides the ending. A name without an ending, a pipe or a device gets the format of the terminal. `-o -`
prints the answer, the page of a `timeline` or `chart`, or the trace of `export --format perfetto`. Commands without
printable output reject `-o -`.

| command | endings |
| --- | --- |
| `report` | `.txt`, `.md`, `.json`, `.html` |
| `diff` | `.txt`, `.md`, `.json`; with `--by`, the endings of `query` |
| `query`, `sql` | `.txt`, `.json`, `.csv`, `.parquet` |
| `timeline`, `chart` | `.html`, `.svg`, `.png`, `.json` |
| `export --format perfetto` | `.json`, `.gz` |
"""


def command_names() -> list[str]:
    """Return the names of all commands, in the order of `hotline --help`."""
    group = typer.main.get_command(app)
    return list(getattr(group, "commands"))  # noqa: B009  # the class that has it is private to typer


def pages() -> dict[str, str]:
    """The text of each page of the folder `cli`: an index, and a page for each command."""
    names = command_names()
    lines = [_INTRO]
    lines += [f"* [`hotline {name}`]({name}.md)" for name in names]
    lines += ["", "## hotline", "", *_help([])]
    texts = {"README.md": "\n".join(lines) + "\n"}
    for name in names:
        texts[f"{name}.md"] = "\n".join([f"# hotline {name}", "", *_help([name])]) + "\n"
    return texts


def _help(command: list[str]) -> list[str]:
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="hotline", env={"COLUMNS": str(COLUMNS)})
    if result.exit_code != 0:
        raise SystemExit(f"hotline {' '.join(command)} --help failed")
    return ["```text", *(line.rstrip() for line in result.output.rstrip().splitlines()), "```"]
