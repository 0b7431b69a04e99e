"""Commands that ask the tables, and say what can be asked: query, queries, sql, schema."""

from __future__ import annotations

from collections.abc import Sequence
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


@app.command("query", cls=AnswerCommand)
def query(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An answer; `hotline queries` lists them.", autocompletion=complete_answers
        ),
    ],
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE",
            help="A run directory, a trace file, a folder or pattern of them, or several; for diff, A and B.",
        ),
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="KEY=VALUE", help="A parameter of the answer, as its option --KEY. Repeatable."
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

    Each answer has options of its own, such as --rank, --step and --limit: `hotline query NAME --help` lists them.

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
        raise typer.BadParameter(f"{', '.join(twice)} is given as an option, too", param_hint="--param")
    given |= options
    # Complain before a long import.
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
            metavar="NAME", help="Only this one, with its parameters and columns.", autocompletion=complete_answers
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="What they are for: answers (the default), advice, charts, export, views or annotate.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the parameters and columns of each.")] = False,
    as_schema: Annotated[
        bool, typer.Option("--schema", help="The JSON Schema of what `hotline query NAME --json` prints.")
    ] = False,
) -> None:
    """List the answers, or say what one takes and gives.

    \b
    Example:
      hotline queries --kind charts
      hotline queries slowest_ops
    """
    from dataclasses import asdict

    from hotline_analysis import catalog
    from hotline_analysis.answers.named import COMPUTED

    if name is not None and kind is not None:
        raise typer.BadParameter("--kind is for the list: it does not go with a name")
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
    else:
        rows = [
            (query.name, ", ".join(_parameter(p.name, p.words, p.required) for p in query.params) or "–", query.summary)
            for query in found
        ]
        typer.echo(listing(("name", "parameters", "what it answers"), rows), nl=False)
        typer.echo(
            f"\nParameters in brackets are optional. A phase is {one_of(PHASES)}."
            " `hotline queries NAME` describes one, with its parameters and columns."
        )


def _print_schema(name: str | None, *, as_json: bool) -> None:
    import json

    from hotline_analysis.envelope import answer_schema

    if as_json:
        raise typer.BadParameter("--json and --schema exclude each other")
    if name is None:
        raise typer.BadParameter("--schema needs the name of an answer; `hotline schema --envelope` is that of all")
    answer = answer_named(name)
    if answer.kind != "answers":
        raise typer.BadParameter(f"{name} is no answer, so no command prints it as JSON")
    typer.echo(json.dumps(answer_schema(name, answer.columns), indent=2))


def _kind(given: str | None) -> Kind:
    """The kind of queries that is meant; the words of earlier versions are errors that name the new ones."""
    from hotline_analysis.catalog import KINDS

    earlier = {"answer": "answers", "derive": "annotate", "rule": "advice", "view": "charts"}
    for kind in KINDS:
        if kind == (given or "answers"):
            return kind
    if given in earlier:
        raise typer.BadParameter(f"the kind {given} is called {earlier[given]} now", param_hint="--kind")
    raise typer.BadParameter(f"{given} is none of {', '.join(KINDS)}", param_hint="--kind")


def _tell(query: Query) -> None:
    from hotline_analysis.envelope import units_of

    lines = f"{query.summary}\n\n{query.description}".strip().splitlines()
    typer.echo("\n".join(folded(line, 100, indent="  " if line.startswith("- ") else "") for line in lines))
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


def _parameter(name: str, words: Sequence[str], required: bool = False) -> str:
    # Of the phases, which most answers take, one line below the list tells.
    named = f"{name}={' | '.join(words)}" if words and tuple(words) != PHASES else name
    return named if required else f"[{named}]"


@app.command("sql")
def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SQL statement, in DuckDB's dialect.")],
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

    The statement can read the tables of the run, which `hotline schema` lists, and nothing else.

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
        typer.Argument(metavar="TABLE", help="Only this table, with its columns.", autocompletion=complete_tables),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the columns of each table.")] = False,
    ddl: Annotated[bool, typer.Option("--ddl", help="`create table` statements.")] = False,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="The JSON Schema of what every --json of hotline prints.")
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
        typer.echo("\n`hotline schema TABLE` shows the columns of a table, `hotline schema --json` those of all.")
    else:
        rows = [(column.name, column.type, column.description) for column in _columns(tables[0])]
        typer.echo(f"{tables[0].doc}\n")
        typer.echo(listing(("column", "type", "meaning"), rows), nl=False)


def _table(name: str) -> Table:
    from difflib import get_close_matches

    from hotline_analysis.schema import TABLES

    if name not in TABLES:
        close = get_close_matches(name, TABLES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else "`hotline schema` lists all of them."
        raise HotlineError(f"there is no table named {name!r}", hint=hint)
    return TABLES[name]


def _columns(table: Table) -> list[Column]:
    """The columns that a query sees."""
    from hotline_analysis.catalog import Column

    return [Column("rank", "BIGINT", "process rank"), *table.columns]


def _describe(table: Table) -> dict[str, object]:
    columns = [{"name": column.name, "type": column.type, "meaning": column.description} for column in _columns(table)]
    return {"name": table.name, "kind": table.kind, "meaning": table.doc, "columns": columns}
