"""Commands that query tables and describe available queries: query, queries, sql, schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    AsCsv,
    AsJson,
    GpuFile,
    GpuName,
    ModelFile,
    Output,
    Overwrite,
    Traces,
    arguments,
    content_json,
    listing,
    open_traces,
    settle_frame,
    write_frame,
)
from hotline_analysis.cli.options import (
    AnswerCommand,
    answer_named,
    complete_answers,
    complete_tables,
    given_options,
)
from hotline_analysis.errors import HotlineError
from hotline_analysis.text.formats import folded, one_of
from hotline_analysis.vocabulary import PHASES

if TYPE_CHECKING:
    from hotline_analysis.catalog import Column, Kind, Query
    from hotline_analysis.schema import Table

FIRST: Mapping[str, tuple[str, ...]] = {
    "Why is a step slow, and what helps?": ("gpu_or_cpu_bound", "optimizer_bottleneck", "step_limits", "advice"),
    "Where is the time?": (
        "slowest_places",
        "slowest_modules",
        "slowest_ops",
        "slowest_kernels",
        "phases",
        "step_kinds",
    ),
    "What does the GPU do?": ("device_use", "memory_peak"),
    "Several ranks, and two runs": ("stragglers", "diff"),
}
"""The answers to begin with, by question."""


@app.command("query", cls=AnswerCommand)
def query(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An answer; `hotline queries` lists all answers.", autocompletion=complete_answers
        ),
    ],
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE",
            help="A run directory, a trace file, a folder or pattern of trace files, or several; for diff, A and B.",
        ),
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="A parameter of the answer, same as the option --KEY. Repeatable.",
        ),
    ] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Answer one question.

    Each answer has its own options, such as --rank, --step and --limit: `hotline query NAME --help` lists them.

    \b
    Example:
      hotline query slowest_ops run.hotline --limit 5
      hotline query critical_path run.hotline --step 3 --json
    """
    from hotline_analysis import catalog
    from hotline_analysis.answers.named import COMPUTED

    form = settle_frame(output, overwrite, as_json, as_csv)
    given: dict[str, object] = {**arguments(param or [])}
    options, limit = given_options(context)
    if twice := sorted(given.keys() & options.keys()):
        raise typer.BadParameter(f"{', '.join(twice)} is also given as an option", param_hint="--param")
    given |= options
    # Report errors before a long import.
    if name in COMPUTED:
        answer = COMPUTED[name]
        asked_with = answer.arguments(given)
        if answer.traces > 1 and len(traces) != answer.traces:
            raise typer.BadParameter(
                f"{name} compares {answer.traces} traces, each a run directory, file, folder or pattern"
            )
        with ExitStack() as opened:
            sources = [traces] if answer.traces == 1 else [[source] for source in traces]
            opening = (open_traces(source, model, gpu, gpus) for source in sources)
            asked = [opened.enter_context(each) for each in opening]
            frame = answer.ask(*asked, **given)
    else:
        bound = catalog.asked_of_a_run(name).bind(**given)
        asked_with = {key: bound[key] for key in given}
        with open_traces(traces, model, gpu, gpus) as trace:
            frame, asked = trace.query(name, **given), [trace]
    write_frame(frame, form, output, name, asked_with, asked, limit=limit)


@app.command("queries")
def queries(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Describe only this answer, with parameters and columns.",
            autocompletion=complete_answers,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="The kind of queries: answers (the default), advice, charts, export, views or annotate.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All answers with their parameters, not the first dozen.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with parameters and columns of each query.")] = False,
    as_schema: Annotated[
        bool, typer.Option("--schema", help="The JSON Schema of `hotline query NAME --json`.")
    ] = False,
) -> None:
    """List the answers, or describe one: its parameters and columns.

    \b
    Example:
      hotline queries
      hotline queries --all
      hotline queries --kind charts
      hotline queries slowest_ops
    """
    from dataclasses import asdict

    from hotline_analysis import catalog
    from hotline_analysis.answers.named import COMPUTED

    if name is not None and kind is not None:
        raise typer.BadParameter("--kind selects a list and cannot be combined with a name")
    if as_schema:
        _print_schema(name, as_json=as_json)
        return
    if name is not None:
        found = [answer_named(name)]
    else:
        chosen = _kind(kind)
        found = catalog.queries(chosen)
        found += [answer.as_query() for answer in COMPUTED.values() if chosen == "answers"]
        found.sort(key=lambda query: query.name)
    if as_json:
        traces = {each: answer.traces for each, answer in COMPUTED.items()}
        listed = [asdict(query) | {"traces": traces.get(query.name, 1)} for query in found]
        typer.echo(content_json("answers", listed), nl=False)
    elif name is not None:
        _tell(found[0])
    elif kind is None and not every:
        _list_first({query.name: query.summary for query in found})
    else:
        rows = [
            (query.name, ", ".join(_parameter(p.name, p.words, p.required) for p in query.params) or "–", query.summary)
            for query in found
        ]
        typer.echo(listing(("name", "parameters", "summary"), rows), nl=False)
        end = (
            f"Parameters in brackets are optional. A phase is {one_of(PHASES)}."
            " `hotline queries NAME` describes one, with its parameters and columns."
        )
        _say(f"\n{end}")


def _list_first(summaries: Mapping[str, str]) -> None:
    """List the answers to begin with, by question."""
    wide = max(len(name) for names in FIRST.values() for name in names)
    indent = " " * (wide + 4)
    for title, names in FIRST.items():
        typer.echo(title)
        for name in names:
            _say(f"  {name:<{wide}}  {summaries[name]}", indent)
        typer.echo()
    _say(
        f"{len(summaries) - sum(map(len, FIRST.values()))} more: hotline queries --all. Ask one: hotline query"
        " slowest_ops TRACE"
    )


def _say(text: str, indent: str = "") -> None:
    """Print a text that fits the terminal."""
    from hotline_analysis.cli import console

    typer.echo("\n".join(folded(line, console.width(), indent=indent) for line in text.split("\n")))


def _print_schema(name: str | None, *, as_json: bool) -> None:
    import json

    from hotline_analysis.envelope import answer_schema

    if as_json:
        raise typer.BadParameter("--json and --schema exclude each other")
    if name is None:
        raise typer.BadParameter(
            "--schema needs the name of an answer; `hotline schema --envelope` prints the common schema"
        )
    answer = answer_named(name)
    if answer.kind != "answers":
        raise typer.BadParameter(f"{name} is not an answer, so no command prints JSON for it")
    typer.echo(json.dumps(answer_schema(name, answer.columns), indent=2))


def _kind(given: str | None) -> Kind:
    """Return the kind of queries named by the user. Names from earlier versions raise an error with the new name."""
    from hotline_analysis.catalog import KINDS

    earlier = {"answer": "answers", "derive": "annotate", "rule": "advice", "view": "charts"}
    for kind in KINDS:
        if kind == (given or "answers"):
            return kind
    if given in earlier:
        raise typer.BadParameter(f"the kind {given} was renamed to {earlier[given]}", param_hint="--kind")
    raise typer.BadParameter(f"{given} is not one of {', '.join(KINDS)}", param_hint="--kind")


def _tell(query: Query) -> None:
    from hotline_analysis.envelope import units_of

    lines = f"{query.summary}\n\n{query.description}".strip().splitlines()
    for line in lines:
        _say(line, "  " if line.startswith("- ") else "")
    if query.do:
        predicted = f" `hotline whatif TRACE {query.scenario}` predicts the gain." if query.scenario else ""
        _say(f"\nFinding: {query.what}. Remedy: {query.do}{predicted}")
    if query.params:
        typer.echo()
        rows = [
            (
                param.name,
                f"{param.type}: {param.allowed}" if param.allowed else param.type,
                "required" if param.required else "–" if param.default is None else str(param.default),
                param.description,
            )
            for param in query.params
        ]
        typer.echo(listing(("parameter", "type", "default", "meaning"), rows), nl=False)
    if query.columns:
        typer.echo()
        units = units_of([column.name for column in query.columns])
        columns = [
            (column.name, column.type, units.get(column.name, "–"), column.description) for column in query.columns
        ]
        typer.echo(listing(("column", "type", "unit", "meaning"), columns), nl=False)
    if query.sql:
        private = "Private. " if query.is_private else ""
        builds = f" Builds {query.writes}." if query.writes not in (None, query.name) else ""
        steps = f" Steps: {', '.join(step.name for step in query.steps)}." if query.steps else ""
        _say(f"\n{private}{query.file} reads {', '.join(query.tables)}.{builds}{steps}")


def _parameter(name: str, words: Sequence[str], required: bool = False) -> str:
    # Most answers take a phase. A line below the list names the phases once.
    named = f"{name}={' | '.join(words)}" if words and tuple(words) != PHASES else name
    return named if required else f"[{named}]"


@app.command("sql")
def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SQL statement in DuckDB's dialect.")],
    traces: Traces,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Answer a question of your own.

    The statement can read only the tables of the run, listed by `hotline schema`.

    \b
    Example:
      hotline sql "select phase, sum(dur_ns) from annotated_event group by all" run.hotline
    """
    form = settle_frame(output, overwrite, as_json, as_csv)
    with open_traces(traces, model, gpu, gpus) as trace:
        write_frame(trace.sql(statement), form, output, "sql", {"statement": statement}, [trace])


@app.command("schema")
def schema(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Describe only this table, with columns.", autocompletion=complete_tables),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON with the columns of each table.")] = False,
    ddl: Annotated[bool, typer.Option("--ddl", help="Print `create table` statements.")] = False,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="The JSON Schema of the --json output of all commands.")
    ] = False,
) -> None:
    """List the tables of a run, or the columns of one.

    \b
    Example:
      hotline schema annotated_event
    """
    from hotline_analysis.schema import TABLES

    if as_json + ddl + envelope > 1:
        raise typer.BadParameter("--json, --ddl and --envelope exclude each other")
    if envelope:
        from hotline_analysis.envelope import SCHEMA

        typer.echo(SCHEMA.read_text(encoding="utf-8"), nl=False)
        return
    tables = list(TABLES.values()) if table is None else [_table(table)]
    if ddl:
        typer.echo(";\n\n".join(table.ddl for table in tables) + ";")
    elif as_json:
        typer.echo(content_json("tables", [_describe(table) for table in tables]), nl=False)
    elif table is None:
        typer.echo(
            listing(("table", "kind", "meaning"), [(each.name, each.kind, each.doc) for each in tables]), nl=False
        )
        _say(
            "\n`hotline schema TABLE` shows the columns of a table, `hotline schema --json` the columns of all tables."
        )
    else:
        rows = [(column.name, column.type, column.description) for column in _columns(tables[0])]
        _say(f"{tables[0].doc}\n")
        typer.echo(listing(("column", "type", "meaning"), rows), nl=False)


def _table(name: str) -> Table:
    from difflib import get_close_matches

    from hotline_analysis.schema import TABLES

    if name not in TABLES:
        close = get_close_matches(name, TABLES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else "`hotline schema` lists all tables."
        raise HotlineError(f"there is no table named {name!r}", hint=hint)
    return TABLES[name]


def _columns(table: Table) -> list[Column]:
    """Return the columns of a table as seen by a query."""
    from hotline_analysis.catalog import RANK_COLUMN

    return [RANK_COLUMN, *table.columns]


def _describe(table: Table) -> dict[str, object]:
    columns = [{"name": column.name, "type": column.type, "meaning": column.description} for column in _columns(table)]
    return {"name": table.name, "kind": table.kind, "meaning": table.doc, "columns": columns}
