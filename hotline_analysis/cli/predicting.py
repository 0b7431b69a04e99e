"""The prediction command: whatif."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    AsJson,
    ModelFile,
    Overwrite,
    arguments,
    content_json,
    listing,
    open_traces,
    output_option,
    rows_json,
    said_of,
)
from hotline_analysis.text.formats import duration, folded, percent, runs

if TYPE_CHECKING:
    import polars as pl

    from hotline_analysis.prediction.engine.loop import Loop


def _say(
    table: pl.DataFrame,
    query: str,
    parameters: Mapping[str, object],
    run: ha.Trace,
    as_json: bool,
    text: Callable[[], str],
) -> None:
    typer.echo(rows_json(table, query, parameters, [run]) if as_json else text(), nl=False)


@app.command("whatif")
def whatif(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A run directory, or a trace file, folder or pattern.")],
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Only this scenario, in detail; all applicable scenarios by default. Or a table: share_gpu, scaling,"
            " bucket_sizes, backward_chain.",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the scenario. Repeatable."),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR:WHERE",
            help="Multiply the time of events, such as \"0.5: name like '%gemm%'\". WHERE is SQL. Repeatable.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="WHERE", help="Remove events, such as \"phase = 'zero_grad'\". WHERE is SQL. Repeatable."),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="The rank to predict; the lowest by default.")] = None,
    model: ModelFile = None,
    as_json: AsJson = False,
    output: Annotated[Path | None, output_option("Write the predicted steps, for ui.perfetto.dev.", "JSON")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict what would help, and by how much.

    Each time is for one step in a loop, with the range in which another run would fall.

    \b
    Example:
      hotline whatif run.hotline
      hotline whatif run.hotline --scale "0.5: phase = 'backward'" -o after.json
    """
    from hotline_analysis.atomic import check_file
    from hotline_analysis.cli.elsewhere import TABLES
    from hotline_analysis.prediction.asked import check_parameters
    from hotline_analysis.prediction.engine.loop import loop_of

    given = arguments(param or [])
    other = given.pop("like", None) if scenario == "gpu" else None
    values: dict[str, float | str | ha.Trace] = {}
    values_of_table: dict[str, object] = {}
    asked_table = None
    edits: list[ha.Scale | ha.Remove] = [_scaled(each) for each in scale or []]
    edits += [ha.Remove(where) for where in remove or []]
    # Report errors before a long import.
    if scenario is not None:
        if edits:
            raise typer.BadParameter("--scale and --remove define your own scenario and cannot be combined with a name")
        asked_table = TABLES.get(scenario)
        if asked_table is None:
            values = check_parameters(scenario, given)
        else:
            values_of_table = asked_table.arguments(scenario, given)
    elif given:
        raise typer.BadParameter("parameters belong to a scenario: name the scenario", param_hint="--param")
    if output is not None:
        of_all_gpus = scenario == "gpu" and "to" not in values and other is None
        if (scenario is None and not edits) or scenario in TABLES or of_all_gpus:
            raise typer.BadParameter(
                "only the steps of a single scenario can be written: name the scenario", param_hint="--output"
            )
        check_file(output, overwrite=overwrite)
    with open_traces([trace], model) as opened, open_traces([other]) if other else nullcontext() as like:
        if like is not None:
            values["like"] = like
        if scenario is None and not edits:
            table = ha.whatif(opened, rank=rank)
            _say(table, "whatif", {}, opened, as_json, lambda: _table(loop_of(opened, rank), table))
            return
        if asked_table is not None:
            table = asked_table.ask(opened, rank, values_of_table)
            _say(table, str(scenario), given, opened, as_json, lambda: asked_table.text(table))
            return
        if scenario == "gpu" and "to" not in values and like is None:
            table = ha.on_gpu(opened, rank=rank, cpu=float(str(values.get("cpu", 1.0))))
            _say(table, "gpu", given, opened, as_json, lambda: _gpus(loop_of(opened, rank), table))
            return
        asked = scenario if scenario is not None else ha.Scenario("your scenario", edits)
        found = ha.whatif(opened, asked, rank=rank, **values)
        typer.echo(content_json("prediction", found.as_dict(), [opened]).rstrip() if as_json else _detail(found))
        if output is not None:
            file = found.save(output, overwrite=overwrite)
            typer.echo(f"{said_of(file)}; open it in ui.perfetto.dev", err=as_json)


def _scaled(text: str) -> ha.Scale:
    factor, colon, where = text.partition(":")
    try:
        number = float(factor)
    except ValueError:
        colon = ""
    if not colon:
        said = f"{text!r} is not FACTOR:WHERE, such as \"0.5: name like '%gemm%'\""
        raise typer.BadParameter(said, param_hint="--scale")
    return ha.Scale(where.strip(), number)


def _table(loop: Loop, table: object) -> str:
    import polars as pl

    from hotline_analysis.cli import console

    assert isinstance(table, pl.DataFrame)
    text = [folded(baseline(loop), console.width()), ""]
    applies = table.filter(pl.col("reason").is_null())
    if applies.is_empty():
        text.append("No scenario applies.\n")
    else:
        rows = [
            (
                row["scenario"],
                duration(row["predicted_ns"]),
                f"{duration(row['low_ns'])} to {duration(row['high_ns'])}",
                f"{duration(row['gain_low_ns'])} to {duration(row['gain_high_ns'])}",
                f"{row['speedup']:.2f}×",
                row["limit_after"],
                row["summary"],
            )
            for row in applies.iter_rows(named=True)
        ]
        headers = ("scenario", "step time", "range", "gain", "speedup", "limit after", "change")
        text.append(listing(headers, rows))
    others = table.filter(pl.col("reason").is_not_null())
    if not others.is_empty():
        text.append(listing(("not applicable", "reason"), others.select("scenario", "reason").rows()))
    text.append("`hotline whatif TRACE NAME` lists the assumptions of a scenario.\n")
    return "\n".join(text)


def _gpus(loop: Loop, table: pl.DataFrame) -> str:
    """Return the table of all GPUs, followed by the GPUs without a prediction, grouped by reason."""
    import polars as pl

    from hotline_analysis.cli import console

    text = [folded(baseline(loop), console.width()), ""]
    told = table.filter(pl.col("reason").is_null())
    if not told.is_empty():
        fits = {True: "yes", False: "no", None: "–"}
        rows = [
            (
                row["gpu"],
                duration(row["predicted_ns"]),
                f"{duration(row['low_ns'])} to {duration(row['high_ns'])}",
                f"{row['speedup']:.2f}×",
                row["limit_after"],
                "–" if row["memory_gib"] is None else f"{row['memory_gib']} GiB",
                fits[row["fits"]],
            )
            for row in told.iter_rows(named=True)
        ]
        text.append(listing(("GPU", "step time", "range", "speedup", "limit after", "memory", "fits"), rows))
    others = table.filter(pl.col("reason").is_not_null())
    if not others.is_empty():
        why = others.group_by("reason", maintain_order=True).agg(pl.col("gpu").str.join(", "))
        said = (f"{row['gpu']}: {row['reason']}" for row in why.iter_rows(named=True))
        text += [*(folded(line, console.width(), indent="  ") for line in said), ""]
    text.append("`hotline whatif TRACE gpu -p to=NAME` lists the assumptions.\n")
    return "\n".join(text)


def baseline(loop: Loop) -> str:
    """Describe the recorded step: its time, the time each side needs alone, and the explained share."""
    from hotline_analysis.prediction.engine.loop import HIGH, LOW

    between = f"{duration(loop.plain_ns(LOW))} to {duration(loop.plain_ns(HIGH))}"
    steps = runs(loop.steps["step"].to_list())
    sides = f"Alone, the CPU needs {duration(loop.gpu_free_ns)}"
    sides += f", the GPU {duration(loop.cpu_free_ns)}." if loop.has_gpu_work else "; there is no GPU work."
    own = f" The profiler's own {duration(loop.profiler_ns)} of a step is left out." if loop.profiler_ns else ""
    return (
        f"A step takes {duration(loop.baseline_ns)} (step {steps}); another run would take {between}. {sides}"
        f" {percent(loop.explained_pct)} of it is explained.{own}"
    )


def _detail(found: ha.Prediction) -> str:
    from hotline_analysis.cli import console

    lines = [str(found), ""]
    if found.summary:
        lines.append(f"Change: {found.summary}")
    edited = found.edited
    lines.append(
        f"Changed in each step: {edited['edited_events']:,} events, {duration(edited['edited_gpu_ns'])} of the GPU and"
        f" {duration(edited['edited_host_ns'])} of the CPU."
    )
    lines.append(
        f"Gain: {duration(found.gain_low_ns)} to {duration(found.gain_high_ns)}. As recorded, the CPU alone needs"
        f" {duration(found.cpu_needs_ns)}, the GPU alone {duration(found.gpu_needs_ns)}."
    )
    lines += ["", "Assumptions:", *(f"  - {each}" for each in found.assumptions)]
    if found.source:
        lines += ["", f"Source: {found.source}"]
    width = console.width()
    return "\n".join(folded(line, width, indent="    " if line.startswith(" ") else "") for line in lines)
