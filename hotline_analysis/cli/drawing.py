"""Commands that draw: timeline, chart."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import check_file, form_of
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    STDOUT,
    Drawing,
    GpuFile,
    GpuName,
    ModelFile,
    Overwrite,
    SourceLines,
    Traces,
    arguments,
    listing,
    open_traces,
    output_file,
    say_written,
)


@app.command("timeline")
def timeline(
    traces: Traces,
    output: Annotated[Path, Drawing],
    step: Annotated[int | None, typer.Option(help="This step; the one of median duration without it.")] = None,
    rank: Annotated[int | None, typer.Option(help="This rank; the lowest without it.")] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    source_lines: SourceLines = True,
    overwrite: Overwrite = False,
) -> None:
    """Draw a step as levels, from phases and modules down to kernels.

    The HTML page works without a network and opens on the way to the bottleneck; a click on a slice opens its parts.
    The other formats show that first view; .json is a Vega-Lite specification.

    \b
    Example:
      hotline timeline run.hotline -o timeline.html
    """
    from hotline_analysis.charts import saving

    with output_file(output, ".html") as file:
        form_of(file, saving.FORMS)
        check_file(file, overwrite=overwrite)
        with open_traces(traces, model, gpu, gpus) as trace:
            ha.charts.timeline(trace, step=step, rank=rank, source_lines=source_lines).save(file)
    say_written(output)


@app.command("chart")
def chart(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chart; `hotline chart --list` lists them.")
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TRACE",
            help="A run directory, a trace file, a folder or pattern of them, or several; for diff, A and B.",
        ),
    ] = None,
    output: Annotated[Path | None, Drawing] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank, as --param rank=RANK.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step, as --param step=STEP.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the chart. Repeatable."),
    ] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    list_: Annotated[bool, typer.Option("--list", help="List the charts and their parameters.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Draw the chart of an answer.

    The HTML page works without a network; .json is a Vega-Lite specification.

    \b
    Example:
      hotline chart phases run.hotline -o phases.svg
      hotline chart diff before.hotline after.hotline -p by=module -o diff.html
    """
    from hotline_analysis.charts import CHARTS, draw, registry, save, saving

    if list_:
        listed = [(kind.name, ", ".join(kind.parameters) or "–", kind.summary) for kind in CHARTS.values()]
        typer.echo(listing(("name", "parameters", "what it shows"), listed), nl=False)
        return
    if name is None or not traces or output is None:
        raise typer.BadParameter("give the name of a chart, a trace and -o FILE; or --list")
    kind = registry.get(name)
    given: dict[str, object] = {**arguments(param or [])}
    given |= {key: value for key, value in (("rank", rank), ("step", step)) if value is not None}
    # Complain before a long import.
    kind.arguments(given)
    if output != STDOUT:
        form_of(output, saving.FORMS)
        check_file(output, overwrite=overwrite)
    if kind.traces > 1 and len(traces) != kind.traces:
        raise typer.BadParameter(f"{name} compares {kind.traces} traces, each a run directory, file, folder or pattern")
    with output_file(output, ".html") as file, ExitStack() as opened:
        sources = [traces] if kind.traces == 1 else [[source] for source in traces]
        opening = (open_traces(source, model, gpu, gpus) for source in sources)
        save(draw(name, *map(opened.enter_context, opening), **given), file)
    say_written(output)
