"""The server: its tools are the public functions, and what they give stands in an envelope."""

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
_MOST_SECONDS = 30  # for a statement of the agent's own; while it runs, no other tool answers
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_GPU = {"launch", "gpu_work", "gpu_event", "gpu_busy", "gpu_state", "gpu_op", "kernel_roofline", "gpu_copy", "gpu_wait"}
_MEMORY = {"memory_event", "memory_block", "memory_change"}
_ARGUMENTS = ("op", "gpu_op", "runtime_call", "event_args")
"""Tables with what the file says of an event beside its name and time."""
_RANKS = {"collective_call", "collective_match", "collective"}

Answer = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def guide() -> str:
    """What an agent should know before it asks."""
    return (files("hotline_analysis.agents") / "text" / "SKILL.md").read_text(encoding="utf-8")


def serve(given: Sequence[Path], output: Path | None = None) -> MCPServer[Any]:
    """A server over the runs and traces in these folders. With `output`, exports are written there, and only there."""
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
            f"Open the run {run} and read its report. Name what limits a step, with the numbers and the event ids"
            " behind them, ask what would help most and by how much, and say what the trace cannot tell."
        )

    @server.prompt(description="Find why one run is slower than another.")
    def why_slower(base: str, new: str) -> str:
        return (
            f"Compare the run {new} with {base}: by part, then by phase, module and op. Say which differences are"
            " beyond noise, and name the events behind the largest."
        )


def _told(tool: Callable[P, T]) -> Callable[P, T]:
    """The tool, one call at a time, with errors that say what to do."""

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
    """The tools, by their names; docstrings are what an agent reads."""

    def __init__(self, folders: Folders, output: Path | None) -> None:
        self._folders = folders
        self._output = output

    def list_runs(self) -> Answer:
        """List the runs and trace files that can be opened, by the names that other tools take as `run`."""
        return envelope("runs", {"names": self._folders.names(), "roots": [str(root) for root in self._folders.roots]})

    def open_run(self, run: str) -> Answer:
        """Say what a run is and what was recorded: ranks, steps, flags, devices, and which answers lack their data.

        Ask this first. A trace file is imported, which takes seconds for each 100 MB.
        """
        trace, said = self._opened(run)
        gpu = has_gpu_work(trace)
        recorded = {
            "gpu_work": gpu,
            "memory": bool(trace.sql("select exists (select 1 from memory_event) as found")["found"][0]),
            "several_ranks": len(trace.ranks) > 1,
        }
        lacking = {
            "gpu_work": _GPU if not gpu else set(),
            "memory": _MEMORY if not recorded["memory"] else set(),
            "several_ranks": _RANKS if len(trace.ranks) == 1 else set(),
        }
        empty = {
            what: sorted(query.name for query in catalog.queries("answers") if tables & set(query.tables))
            for what, tables in lacking.items()
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
        return envelope("run", facts, runs=[trace], warnings=said)

    def report(
        self,
        run: str,
        rank: int | None = None,
        step: int | None = None,
        phase: Phase | None = None,
        module: str | None = None,
    ) -> Answer:
        """Say where the time goes, what limits a step, and what would help: findings, advice and tables.

        Each finding and section has a `drill`: the answer behind it, for `ask`. Advice names an event id. With a step,
        phase or module, the tables are of what happens there, and there is no advice.
        """
        trace, said = self._opened(run)
        report = report_of(trace, rank=rank, step=step, phase=phase, module=module)
        return envelope("report", {"report": report.as_dict()}, runs=[trace], warnings=said)

    def list_answers(self, containing: str = "") -> Answer:
        """List the answers that `ask` takes, with their parameters; those whose name or summary contains a word."""
        found = [*catalog.queries("answers"), *(each.as_query() for each in COMPUTED.values())]
        listed = [
            {"name": each.name, "summary": each.summary, "parameters": [param.name for param in each.params]}
            for each in sorted(found, key=lambda query: query.name)
            if containing.lower() in f"{each.name} {each.summary}".lower()
        ]
        return envelope("answers", {"answers": listed})

    def describe_answer(self, name: str) -> Answer:
        """Say what an answer means: its description, its parameters and what its columns are."""
        query = COMPUTED[name].as_query() if name in COMPUTED else catalog.get(name)
        described = {
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
        return envelope("answer", {"answer": described})

    def ask(
        self,
        run: str,
        answer: str,
        parameters: dict[str, str | int | float | bool | None] | None = None,
        columns: list[str] | None = None,
        limit: int = _LIMIT,
        offset: int = 0,
    ) -> Answer:
        """Ask one answer of a run. `columns` choose some, `limit` and `offset` rows; `truncation` says what is left."""
        given: dict[str, object] = dict(parameters or {})
        trace, said = self._opened(run)
        if answer in COMPUTED:
            if COMPUTED[answer].traces > 1:
                raise QueryParameterError(f"{answer} is about two runs", hint="Use the tool compare.")
            frame = COMPUTED[answer].ask(trace, **given)
        else:
            frame = trace.query(answer, **given)
        return _rows(frame, answer, given, [trace], said, columns, limit, offset)

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
        """Say what makes the steps of `new` slower or faster than those of `base`, at one level.

        Rows add up to the difference; `change` says which are noise. The first warning is the difference in words.
        With a phase or module, only what happens there is compared.
        """
        before, said = self._opened(base)
        after, more = self._opened(new)
        headline = diff_report(before, after, phase=phase, module=module).headline
        frame = diff(before, after, by=by, phase=phase, module=module)
        given = {"by": by, "phase": phase, "module": module}
        asked = {name: value for name, value in given.items() if value is not None}
        return _rows(frame, "diff", asked, [before, after], [headline, *said, *more], None, limit, offset)

    def gate(self, base: list[str], new: list[str], fail_if: list[str] | None = None) -> Answer:
        """Say whether new runs are worse than a baseline, with the noise between runs.

        Rules are such as 'step > +3 %', 'module:* > +1 % of step' or 'memory_peak > 20 GiB'.
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
        """Say what would help, and by how much. Without a scenario: all; those that do not apply have a `reason`.

        Without a rank, it is about the lowest.
        """
        trace, said = self._opened(run)
        if scenario is None:
            frame = predicted(trace, rank=rank)
            asked = {} if rank is None else {"rank": rank}
            return _rows(frame, "whatif", asked, [trace], said, None, _MOST_ROWS, 0)
        given: dict[str, Any] = {**check_parameters(scenario, parameters or {})}
        found = predicted(trace, scenario, rank=rank, **given)
        return envelope("prediction", {"prediction": found.as_dict()}, runs=[trace], warnings=said)

    def schema(self, table: str | None = None) -> Answer:
        """List the tables that `sql` can read, or the columns of one."""
        if table is None:
            listed = [{"name": each.name, "kind": each.kind, "meaning": each.doc} for each in TABLES.values()]
            return envelope("tables", {"tables": listed})
        if table not in TABLES:
            raise HotlineError(f"there is no table {table!r}", hint="The tool schema lists them.")
        columns = [{"name": "rank", "type": "BIGINT", "meaning": "process rank"}]
        columns += [
            {"name": each.name, "type": each.type, "meaning": each.description} for each in TABLES[table].columns
        ]
        described = {"name": table, "kind": TABLES[table].kind, "meaning": TABLES[table].doc, "columns": columns}
        return envelope("tables", {"tables": [described]})

    def sql(self, run: str, statement: str, limit: int = _LIMIT, offset: int = 0) -> Answer:
        """Run one SELECT in DuckDB's dialect on the tables of a run; it can read them and nothing else.

        A statement that takes over 30 seconds is stopped.
        """
        trace, said = self._opened(run)
        with trace.at_most(_MOST_SECONDS):
            frame = trace.sql(statement)
        return _rows(frame, "sql", {"statement": statement}, [trace], said, None, limit, offset)

    def event(self, run: str, event_id: int, rank: int | None = None) -> Answer:
        """Say all that is known of one event: its labels, its arguments, and the place in the user's code."""
        trace, said = self._opened(run)
        chosen = trace.ranks[0] if rank is None else rank
        found = trace.sql(
            "from annotated_event where rank = $rank and event_id = $event", rank=chosen, event=event_id
        ).to_dicts()
        if not found:
            raise HotlineError(f"rank {chosen} has no event {event_id}", hint="Ids stand in columns such as event_id.")
        arguments = {
            table: trace.sql(
                f"select * exclude (rank, event_id) from {table} where rank = $rank and event_id = $event",  # noqa: S608
                rank=chosen,
                event=event_id,
            ).to_dicts()
            for table in _ARGUMENTS
        }
        place = trace.query("event_place", rank=chosen, event=event_id).to_dicts()
        known = {table: rows[0] for table, rows in arguments.items() if rows}
        content = {"event": found[0], "arguments": known, "place": place}
        return envelope("event", content, runs=[trace], warnings=said)

    def timeline(self, run: str, step: int | None = None, rank: int | None = None) -> Image:
        """Draw one step as levels, from phases and modules down to kernels: a picture."""
        from hotline_analysis.charts import timeline

        trace, _ = self._opened(run)
        with temporary_folder() as folder:
            file = folder / "timeline.png"
            timeline(trace, step=step, rank=rank).save(file)
            return Image(data=file.read_bytes(), format="png")

    def export(self, run: str, name: str, format: Literal["parquet", "perfetto", "html"] = "html") -> Answer:
        """Write a run for other tools into the folder that the server may write to, under a new name."""
        assert self._output is not None
        if Path(name).name != name or name in ("", ".", ".."):
            raise QueryParameterError(f"{name!r} is no plain name", hint="Give a file name without a folder.")
        target = self._output / name
        trace, said = self._opened(run)
        if format == "html":
            from hotline_analysis.atomic import check_file, replace_file

            check_file(target, overwrite=False)
            text = report_of(trace).to_html()
            replace_file(target, lambda file: file.write_text(text, encoding="utf-8"))
        elif format == "perfetto":
            export_perfetto(trace, target)
        else:
            trace.export(target)
        return envelope("file", {"file": str(target)}, runs=[trace], warnings=said)

    def _opened(self, name: str) -> tuple[Trace, list[str]]:
        """The run, and what is to be said of it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HotlineWarning)
            trace = self._folders.open(name)
        return trace, [str(each.message) for each in caught if issubclass(each.category, HotlineWarning)]


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
            raise QueryParameterError(f"{query} has no column {name!r}", hint=f"It has {', '.join(frame.columns)}.")
    if not 0 <= limit <= _MOST_ROWS or offset < 0:
        raise QueryParameterError(f"limit is 0 to {_MOST_ROWS}, and offset 0 or more")
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
