"""Commands for continuous integration: gate, baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import check_file, form_of, path_of
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import Overwrite, content_json, open_traces, output_option, said_of, write
from hotline_analysis.errors import HotlineError

if TYPE_CHECKING:
    from hotline_analysis.gating import Measured, Verdict

CANNOT_TELL = 3
"""Exit status of a gate without a verdict, because of noise or an error. Status 2 means a wrong command line."""
_STATUS = {"pass": 0, "fail": 1, "cannot tell": CANNOT_TELL}
_FORMS = {".txt": "text", ".md": "markdown", ".xml": "junit", ".json": "json"}


@app.command("gate")
def gate(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="BASE... NEW",
            help="Runs or traces of the baseline, or a baseline file, followed by the new run. A folder or pattern of"
            " run directories means several runs.",
        ),
    ],
    new: Annotated[
        list[str] | None,
        typer.Option(
            "--new", "-n", metavar="RUN", help="A new run, if there are several; all other runs are then BASE."
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Fail if this condition holds, such as 'phase:backward > +2 ms'; 'step > +3 %' by default."
            " Repeatable.",
        ),
    ] = None,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="Compare runs despite this difference, such as 'device'. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a job summary.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write the verdict to a file: .txt, .md, .xml (JUnit) or .json. Repeatable.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Fail if new runs are slower than a baseline, and not by chance.

    The exit status is 0 if all rules pass, 1 if a rule fails, and 3 without a verdict. Reasons for no verdict are too
    few runs for the noise, incomparable runs, or an error. A limit with a sign is a change, in %, % of step or a unit;
    without a sign, the limit is a value. Metrics are step, gpu_busy, gpu_idle, memory_peak and mfu; and phase:,
    module:, class:, kernel:, op: and idle: followed by a name, where * matches any text.

    \b
    Example:
      hotline gate run.hotline traces/ --fail-if "phase:backward > +20 ms"
      hotline gate baseline.json --new new1.hotline --new new2.hotline -o gate.xml
    """
    from hotline_analysis.cli import console
    from hotline_analysis.gating.rules import parse
    from hotline_analysis.gating.verdict import DEFAULT_RULES

    if as_json and markdown:
        raise typer.BadParameter("--json and --markdown exclude each other")
    if not new and len(runs) < 2:
        raise typer.BadParameter("a gate compares runs: name the baseline first, and the new run last")
    rules = fail_if or list(DEFAULT_RULES)
    try:
        for rule in rules:
            parse(rule)
    except HotlineError as error:
        raise typer.BadParameter(str(error), param_hint="--fail-if") from None
    try:
        files = [(path_of(file), form_of(file, _FORMS)) for file in output or []]
        for file, _ in files:
            check_file(file, overwrite=overwrite)
        before, after = (runs, new) if new else (runs[:-1], runs[-1:])
        verdict = ha.gate(_measured(before), _measured(after), rules, allow_different=allow_different or [])
        for file, form in files:
            write(_text(verdict, form, width=None), file)
    except HotlineError as error:
        # Not 1: an error does not mean slower.
        console.error(error.message, error.hint)
        raise typer.Exit(CANNOT_TELL) from None
    form = "json" if as_json else "markdown" if markdown else "text"
    write(_text(verdict, form, width=console.width()), None)
    raise typer.Exit(_STATUS[verdict.answer])


@app.command("baseline")
def baseline(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs or traces, each from one run of the program, and baseline files."),
    ],
    output: Annotated[Path, output_option("The file to write.", "JSON")],
    keep: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of runs to keep: the last ones named.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Measure runs for a gate, and keep the measurements.

    The file replaces the runs as a baseline of `hotline gate`, so the runs need not be kept.

    To extend a baseline file, name it first, then the new run, and write to the same file.

    \b
    Example:
      hotline baseline run.hotline -o baseline.json
      hotline baseline baseline.json run.hotline --keep 10 -o baseline.json --overwrite
    """
    check_file(output, overwrite=overwrite)
    kept = list(_measured(runs))[-(keep or 0) :]
    file = ha.write_baseline(kept, output, overwrite=overwrite)
    typer.echo(f"{said_of(file)}, {len(kept)} run{'s' if len(kept) != 1 else ''}")


def _measured(names: list[str]) -> list[Measured]:
    return [run for name in names for run in _of(name)]


def _of(name: str) -> Iterator[Measured]:
    """Measure the runs of one name: a baseline file, a folder or pattern of run directories, or a source for `load`."""
    from hotline_analysis.gating.baseline import is_baseline

    if is_baseline(name):
        yield from ha.read_baseline(name)
        return
    for each in _run_directories(name) or [name]:
        with open_traces([each]) as trace:
            yield ha.measure(trace, Path(each).name)


def _run_directories(name: str) -> list[str]:
    """Return the run directories in a folder or matching a pattern."""
    from glob import glob

    folder = Path(name)
    if (folder / "manifest.json").exists():
        return []
    found = [str(each) for each in folder.iterdir()] if folder.is_dir() else glob(name)
    return sorted(each for each in found if (Path(each) / "manifest.json").exists())


def _text(verdict: Verdict, form: str, *, width: int | None) -> str:
    if form == "json":
        return content_json("gate", verdict.as_dict())
    if form == "markdown":
        return verdict.to_markdown()
    if form == "junit":
        return verdict.to_junit()
    return verdict.to_text(width)
