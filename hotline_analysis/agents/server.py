"""The MCP server: each tool calls a public function and returns the result in an envelope."""

from __future__ import annotations

import functools
import json
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import polars as pl
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from hotline_analysis import catalog
from hotline_analysis.agents.folders import Folders
from hotline_analysis.answers.comparison import Level, diff
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.atomic import temporary_folder
from hotline_analysis.envelope import envelope, rows_envelope
from hotline_analysis.errors import HotlineError, HotlineWarning, QueryParameterError
from hotline_analysis.export import export_perfetto
from hotline_analysis.gating import gate as gate_runs
from hotline_analysis.prediction.asked import check_parameters
from hotline_analysis.prediction.asked import whatif as predicted
from hotline_analysis.reports import diff_report
from hotline_analysis.reports import report as report_of
from hotline_analysis.run.trace import Trace
from hotline_analysis.schema import TABLES
from hotline_analysis.vocabulary import Phase

_LIMIT = 50
_MOST_ROWS = 1000
_MOST_SECONDS = 30  # limit for the agent's own SQL; no other tool answers meanwhile
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_GPU = {"launch", "gpu_event", "gpu_busy", "gpu_state", "gpu_op", "kernel_roofline", "gpu_copy", "gpu_wait"}
_MEMORY = {"memory_event", "memory_block", "memory_change"}
_ARGUMENTS = ("op", "gpu_op", "runtime_call", "event_args")
"""Tables with an event's recorded arguments, in addition to the event's name and time."""
_RANKS = {"collective_call", "collective_match", "collective"}

Answer = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def guide() -> str:
    """Return the guide that an agent should read first."""
    return (files("hotline_analysis.agents") / "text" / "SKILL.md").read_text(encoding="utf-8")


def serve(given: Sequence[Path], output: Path | None = None) -> MCPServer[Any]:
    """Create a server for the runs and traces in these folders.

    Exports go only to `output`; if None, there is no export tool.
    """
    server: MCPServer[Any] = MCPServer("hotline", instructions=guide(), log_level="WARNING")
    tools = _Tools(Folders(given), output)
    for tool in (
        tools.list_runs,
        tools.open_run,
        tools.report,
        tools.list_answers,
        tools.describe_answer,
        tools.ask,
        tools.compare,
        tools.gate,
        tools.whatif,
        tools.schema,
        tools.sql,
        tools.event,
    ):
        server.tool(annotations=_READS, structured_output=True)(_told(tool))
    server.tool(annotations=_READS)(_told(tools.timeline))
    if output is not None:
        server.tool(annotations=_WRITES, structured_output=True)(_told(tools.export))
    server.resource("hotline://guide", mime_type="text/markdown")(guide)
    server.resource("hotline://schema", name="schema", mime_type="application/json")(lambda: json.dumps(tools.schema()))
    server.resource("hotline://answers", name="answers", mime_type="application/json")(
        lambda: json.dumps(tools.list_answers())
    )
    _add_prompts(server)
    return server


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt(description="Find what makes a training run slow.")
    def why_slow(run: str) -> str:
        return (
            f"Open the run {run} and read the report. Name the limit of a step, with numbers and event ids. Ask what"
            " would help most and by how much. List open questions that the trace does not answer."
        )

    @server.prompt(description="Find why one run is slower than another.")
    def why_slower(base: str, new: str) -> str:
        return (
            f"Compare the run {new} with {base}: by part, then by phase, module and op. Report the differences beyond"
            " noise, and name the events of the largest differences."
        )


def _told(tool: Callable[P, T]) -> Callable[P, T]:
    """Wrap a tool: run one call at a time, and turn `HotlineError` into `ToolError` with the hint."""

    @functools.wraps(tool)
    def called(*args: P.args, **named: P.kwargs) -> T:
        with _ONE_AT_A_TIME:
            try:
                return tool(*args, **named)
            except HotlineError as error:
                raise ToolError(str(error)) from None

    return called


_ONE_AT_A_TIME = threading.Lock()


class _Tools:
    """The tools by name. Agents read the docstrings."""

    def __init__(self, folders: Folders, output: Path | None) -> None:
        self._folders = folders
        self._output = output

    def list_runs(self) -> Answer:
        """List all runs and trace files, by the names accepted as `run` by other tools."""
        return envelope("runs", {"names": self._folders.names(), "roots": [str(root) for root in self._folders.roots]})

    def open_run(self, run: str) -> Answer:
        """Describe a run: ranks, steps, flags, devices, and the answers that lack data in the recording.

        Call this first. A trace file is imported, which takes seconds per 100 MB.
        """
        trace, messages = self._opened(run)
        gpu = has_gpu_work(trace)
        recorded = {
            "gpu_work": gpu,
            "memory": bool(trace.sql("select exists (select 1 from memory_event) as found")["found"][0]),
            "several_ranks": len(trace.ranks) > 1,
        }
        missing_tables = {
            "gpu_work": _GPU if not gpu else set(),
            "memory": _MEMORY if not recorded["memory"] else set(),
            "several_ranks": _RANKS if len(trace.ranks) == 1 else set(),
        }
        empty = {
            kind: sorted(query.name for query in catalog.queries("answers") if tables & set(query.tables))
            for kind, tables in missing_tables.items()
            if tables
        }
        facts = {
            "recorded": recorded,
            "rank_info": trace.sql("select * exclude (metadata) from rank_info order by rank").to_dicts(),
            "devices": trace.sql("select rank, device_id, name, model from gpu_model order by all").to_dicts(),
            "steps": trace.sql(
                "select rank, count(*) as step_count, min(step) as first_step, max(step) as last_step from step"
                " group by rank order by rank"
            ).to_dicts(),
            "modules": trace.sql("select count(distinct path) as n from model_op")["n"][0],
            "answers_that_lack_data": empty,
        }
        return envelope("run", facts, runs=[trace], warnings=messages)

    def report(
        self,
        run: str,
        rank: int | None = None,
        step: int | None = None,
        phase: Phase | None = None,
        module: str | None = None,
    ) -> Answer:
        """Show where the time goes, the limits of a step, and possible improvements: findings, advice and tables.

        Each finding and section has a `drill`: the answer with the details, for `ask`. Advice names an event id. With a
        step, phase or module, the tables cover only that part, and there is no advice.
        """
        trace, messages = self._opened(run)
        report = report_of(trace, rank=rank, step=step, phase=phase, module=module)
        return envelope("report", {"report": report.as_dict()}, runs=[trace], warnings=messages)

    def list_answers(self, containing: str = "") -> Answer:
        """List the answers accepted by `ask`, with their parameters. `containing` filters by name or summary."""
        answers = [*catalog.queries("answers"), *(answer.as_query() for answer in COMPUTED.values())]
        entries = [
            {"name": answer.name, "summary": answer.summary, "parameters": [param.name for param in answer.params]}
            for answer in sorted(answers, key=lambda query: query.name)
            if containing.lower() in f"{answer.name} {answer.summary}".lower()
        ]
        return envelope("answers", {"answers": entries})

    def describe_answer(self, name: str) -> Answer:
        """Describe an answer: its meaning, parameters and columns."""
        query = COMPUTED[name].as_query() if name in COMPUTED else catalog.get(name)
        description = {
            "name": query.name,
            "summary": query.summary,
            "description": query.description,
            "parameters": [
                {
                    "name": param.name,
                    "type": param.type,
                    "required": param.required,
                    "default": param.default,
                    "allowed": param.allowed,
                    "meaning": param.description,
                }
                for param in query.params
            ],
            "columns": [
                {"name": column.name, "type": column.type, "meaning": column.description} for column in query.columns
            ],
        }
        return envelope("answer", {"answer": description})

    def ask(
        self,
        run: str,
        answer: str,
        parameters: dict[str, str | int | float | bool | None] | None = None,
        columns: list[str] | None = None,
        limit: int = _LIMIT,
        offset: int = 0,
    ) -> Answer:
        """Ask a run one answer.

        `columns` selects columns, `limit` and `offset` select rows; `truncation` says how many rows remain.
        """
        arguments: dict[str, object] = dict(parameters or {})
        trace, messages = self._opened(run)
        if answer in COMPUTED:
            if COMPUTED[answer].traces > 1:
                raise QueryParameterError(f"{answer} compares two runs", hint="Use the tool `compare`.")
            frame = COMPUTED[answer].ask(trace, **arguments)
        else:
            frame = trace.query(answer, **arguments)
        return _rows(frame, answer, arguments, [trace], messages, columns, limit, offset)

    def compare(
        self,
        base: str,
        new: str,
        by: Level = "part",
        phase: Phase | None = None,
        module: str | None = None,
        limit: int = _LIMIT,
        offset: int = 0,
    ) -> Answer:
        """Show what makes the steps of `new` slower or faster than the steps of `base`, at one level.

        Rows add up to the difference, and `change` marks noise. The first warning is the difference as a sentence. With
        a phase or module, only that part is compared.
        """
        before, messages = self._opened(base)
        after, more_messages = self._opened(new)
        headline = diff_report(before, after, phase=phase, module=module).headline
        frame = diff(before, after, by=by, phase=phase, module=module)
        options = {"by": by, "phase": phase, "module": module}
        arguments = {name: value for name, value in options.items() if value is not None}
        return _rows(
            frame, "diff", arguments, [before, after], [headline, *messages, *more_messages], None, limit, offset
        )

    def gate(self, base: list[str], new: list[str], fail_if: list[str] | None = None) -> Answer:
        """Check whether new runs are worse than a baseline, considering the noise between runs.

        Example rules: 'step > +3 %', 'module:* > +1 % of step' or 'memory_peak > 20 GiB'.
        """
        before, after = ([self._opened(name)[0] for name in names] for names in (base, new))
        verdict = gate_runs(before, after, fail_if) if fail_if else gate_runs(before, after)
        return envelope("gate", {"gate": verdict.as_dict()}, runs=[*before, *after])

    def whatif(
        self,
        run: str,
        scenario: str | None = None,
        parameters: dict[str, str | int | float] | None = None,
        rank: int | None = None,
    ) -> Answer:
        """Predict what would help, and by how much.

        Without a scenario, all scenarios are listed; scenarios that do not apply have a `reason`. Without a rank, the
        lowest rank is used.
        """
        trace, messages = self._opened(run)
        if scenario is None:
            frame = predicted(trace, rank=rank)
            scope = {} if rank is None else {"rank": rank}
            return _rows(frame, "whatif", scope, [trace], messages, None, _MOST_ROWS, 0)
        arguments: dict[str, Any] = {**check_parameters(scenario, parameters or {})}
        prediction = predicted(trace, scenario, rank=rank, **arguments)
        return envelope("prediction", {"prediction": prediction.as_dict()}, runs=[trace], warnings=messages)

    def schema(self, table: str | None = None) -> Answer:
        """List the tables available to `sql`, or the columns of one table."""
        if table is None:
            tables = [{"name": item.name, "kind": item.kind, "meaning": item.doc} for item in TABLES.values()]
            return envelope("tables", {"tables": tables})
        if table not in TABLES:
            raise HotlineError(f"there is no table {table!r}", hint="The tool `schema` lists the tables.")
        columns = [{"name": "rank", "type": "BIGINT", "meaning": "process rank"}]
        columns += [
            {"name": item.name, "type": item.type, "meaning": item.description} for item in TABLES[table].columns
        ]
        entry = {"name": table, "kind": TABLES[table].kind, "meaning": TABLES[table].doc, "columns": columns}
        return envelope("tables", {"tables": [entry]})

    def sql(self, run: str, statement: str, limit: int = _LIMIT, offset: int = 0) -> Answer:
        """Run one SELECT in DuckDB's dialect. The statement can read only the tables of the run.

        A statement is stopped after 30 seconds.
        """
        trace, messages = self._opened(run)
        with trace.at_most(_MOST_SECONDS):
            frame = trace.sql(statement)
        return _rows(frame, "sql", {"statement": statement}, [trace], messages, None, limit, offset)

    def event(self, run: str, event_id: int, rank: int | None = None) -> Answer:
        """Return everything known about one event: labels, arguments, and the location in the user's code."""
        trace, messages = self._opened(run)
        event_rank = trace.ranks[0] if rank is None else rank
        events = trace.sql(
            "from annotated_event where rank = $rank and event_id = $event", rank=event_rank, event=event_id
        ).to_dicts()
        if not events:
            raise HotlineError(
                f"rank {event_rank} has no event {event_id}", hint="Columns such as event_id contain ids."
            )
        arguments = {
            table: trace.sql(
                f"select * exclude (rank, event_id) from {table} where rank = $rank and event_id = $event",  # noqa: S608
                rank=event_rank,
                event=event_id,
            ).to_dicts()
            for table in _ARGUMENTS
        }
        locations = trace.query("event_place", rank=event_rank, event=event_id).to_dicts()
        values = {table: rows[0] for table, rows in arguments.items() if rows}
        content = {"event": events[0], "arguments": values, "place": locations}
        return envelope("event", content, runs=[trace], warnings=messages)

    def timeline(self, run: str, step: int | None = None, rank: int | None = None) -> Image:
        """Draw one step as a picture: levels from phases and modules down to kernels."""
        from hotline_analysis.charts import timeline

        trace, _ = self._opened(run)
        with temporary_folder() as folder:
            file = folder / "timeline.png"
            timeline(trace, step=step, rank=rank).save(file)
            return Image(data=file.read_bytes(), format="png")

    def export(self, run: str, name: str, format: Literal["parquet", "perfetto", "html"] = "html") -> Answer:
        """Write a run for other tools, under a new name in the server's output folder."""
        assert self._output is not None
        if Path(name).name != name or name in ("", ".", ".."):
            raise QueryParameterError(f"{name!r} is not a plain file name", hint="Give a name without a folder.")
        target = self._output / name
        trace, messages = self._opened(run)
        if format == "html":
            from hotline_analysis.atomic import check_file, replace_file

            check_file(target, overwrite=False)
            text = report_of(trace).to_html()
            replace_file(target, lambda file: file.write_text(text, encoding="utf-8"))
        elif format == "perfetto":
            export_perfetto(trace, target)
        else:
            trace.export(target)
        return envelope("file", {"file": str(target)}, runs=[trace], warnings=messages)

    def _opened(self, name: str) -> tuple[Trace, list[str]]:
        """Return the run and the warnings from opening it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HotlineWarning)
            trace = self._folders.open(name)
        return trace, [str(warning.message) for warning in caught if issubclass(warning.category, HotlineWarning)]


def _rows(
    frame: pl.DataFrame,
    query: str,
    parameters: Mapping[str, object],
    runs: Sequence[Trace],
    said: Sequence[str],
    columns: Sequence[str] | None,
    limit: int,
    offset: int,
) -> Answer:
    for name in columns or []:
        if name not in frame.columns:
            raise QueryParameterError(f"{query} has no column {name!r}", hint=f"Columns: {', '.join(frame.columns)}.")
    if not 0 <= limit <= _MOST_ROWS or offset < 0:
        raise QueryParameterError(f"limit must be 0 to {_MOST_ROWS}, and offset 0 or more")
    return rows_envelope(
        frame,
        query=query,
        parameters=parameters,
        runs=runs,
        warnings=said,
        columns=columns,
        limit=limit,
        offset=offset,
    )
