"""Predictions: the step time with a range, and the assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hotline_analysis.answers.replay import Run
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.engine.edits import Edit, Number, at, redraw
from hotline_analysis.prediction.engine.loop import HIGH, LOW, MID, SURE_PCT, Loop, State
from hotline_analysis.prediction.engine.timeline import moved_events, save_timeline
from hotline_analysis.text.formats import duration, percent

_SHOWN = 20


@dataclass(frozen=True)
class Scenario:
    """A change to a loop: a name, edits applied in order, and assumptions.

        ha.Scenario("half the matmuls", [ha.Scale("name like '%gemm%'", 0.5)])

    `summary` describes the change, `source` names its origin. A step takes at least `least_ns`.
    """

    name: str
    edits: Sequence[Edit]
    summary: str = ""
    assumptions: Sequence[str] = ()
    source: str = ""
    least_ns: Number = 0.0


@dataclass(frozen=True)
class Prediction:
    """The predicted step time: `predicted_ns`, between `low_ns` and `high_ns`, against `baseline_ns` as recorded.

    All times are per step of the loop. `gain_ns` is the expected gain of a step, between `gain_low_ns` and
    `gain_high_ns`. The ranges of times include the variation between runs of the same program; the ranges of gains do
    not. `limit_before` and `limit_after` name the largest part of the step's path, as in `step_limits`. `cpu_needs_ns`
    and `gpu_needs_ns` are the recorded step's times if the other side took no time. `explained_pct` is the share of the
    recorded step that follows from mechanisms alone. `assumptions` are sentences, `evidence` has the changed events
    with their times, and `edited` their number and duration per step.
    """

    scenario: str
    summary: str
    rank: int
    steps: tuple[int, ...]
    baseline_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    gain_low_ns: int
    gain_high_ns: int
    limit_before: str
    limit_after: str
    cpu_needs_ns: int
    gpu_needs_ns: int
    explained_pct: float
    assumptions: tuple[str, ...]
    source: str
    evidence: pl.DataFrame
    edited: dict[str, int]
    _loop: Loop = field(repr=False, compare=False)
    _state: State = field(repr=False, compare=False)
    _run: Run = field(repr=False, compare=False)

    @property
    def gain_ns(self) -> int:
        """The expected reduction of a step's time; negative if the step gets longer."""
        return self.baseline_ns - self.predicted_ns

    @property
    def speedup(self) -> float:
        """The recorded step time divided by the predicted time."""
        return self.baseline_ns / max(self.predicted_ns, 1)

    def path(self) -> pl.DataFrame:
        """Return the critical path of the changed step: its edges, the last first, as in `critical_path`.

        `path_ns` adds up to as many steps as the path covers.
        """
        return self._state.table.replay.path(self._run)

    def path_before(self) -> pl.DataFrame:
        """Return the critical path of the recorded step, in the same format."""
        return self._loop.table.replay.path(self._loop.observed)

    def timeline(self) -> pl.DataFrame:
        """Return the events of the predicted steps, with `start_ns` and `end_ns` from the start of the first step.

        `recorded_start_ns` and `recorded_end_ns` are the times in the trace. Events that take no time any more are left
        out, and so are threads that launch nothing and belong to no phase.
        """
        return moved_events(self._loop, self._state, self._run)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the timeline as a trace file for ui.perfetto.dev. Raises `ExportExistsError` if the file exists."""
        return save_timeline(self._loop, self.timeline(), path, self.scenario, overwrite=overwrite)

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers and sentences in JSON types; of the events, only the ids."""
        hidden = ("evidence", "edited")
        names = [name for name in self.__dataclass_fields__ if not name.startswith("_") and name not in hidden]
        values = {name: getattr(self, name) for name in names}
        return {
            **values,
            "steps": list(self.steps),
            "assumptions": list(self.assumptions),
            "gain_ns": self.gain_ns,
            "speedup": self.speedup,
            **self.edited,
            "evidence": self.evidence["event_id"].to_list(),
        }

    def __str__(self) -> str:
        range_text = f"{duration(self.low_ns)} to {duration(self.high_ns)}"
        time_text = (
            f"{duration(self.predicted_ns)} ({range_text})"
            if self.explained_pct >= SURE_PCT
            else f"between {range_text}"
        )
        return f"{self.scenario}: a step takes {time_text}, instead of {duration(self.baseline_ns)}. {self._why()}"

    def _why(self) -> str:
        from hotline_analysis.answers.verdicts import VERDICTS

        noun = next((verdict.noun for limit, verdict in VERDICTS.items() if limit == self.limit_after), "nothing")
        if abs(self.gain_ns) < 0.01 * self.baseline_ns:
            return f"It changes nothing: what the step waits for most is {noun}."
        return f"What it then waits for most is {noun}."

    def __repr__(self) -> str:
        return f"<Prediction {self}>"

    def _repr_html_(self) -> str:
        from hotline_analysis.text.html import frame_table, render

        evidence = frame_table(self.evidence, _SHOWN)
        html = render("notebook_prediction.html", statement=str(self), assumptions=self.assumptions, evidence=evidence)
        return str(html)


def edited(loop: Loop, scenario: Scenario, level: int) -> State:
    """Return the loop's weights at an end of the range, with the edits of a scenario applied."""
    state = redraw(loop, scenario.edits, level)
    for edit in scenario.edits:
        if not edit.is_structural:
            edit.apply(loop, state)
    return state


def time_with(loop: Loop, scenario: Scenario, level: int) -> int:
    """Return the time of a step with a scenario at an end of the range."""
    return loop.time_ns(level, lambda each: edited(each, scenario, level))


def most_gain(loop: Loop, scenario: Scenario) -> float:
    """Return an upper bound of a step's gain without a replay: the shortening of the recorded critical path.

    The recorded path remains a path after the edits, so no step can be shorter than this path. The bound is infinite if
    edits remove waits or redraw the graph.
    """
    if any(edit.is_structural for edit in scenario.edits):
        return math.inf
    state = edited(loop, scenario, MID)
    rows, path_times = loop.recorded_path
    if state.gone[rows].any():
        return math.inf
    shorter = np.minimum(loop.table.weight[rows] - state.weight[rows], path_times)
    return float(shorter.sum()) / (loop.observed.path_steps * loop.count)


def predict(loop: Loop, scenario: Scenario) -> Prediction:
    """Apply a scenario to a loop at the low end, in the middle and at the high end.

    Raises `HotlineError` if too little of the loop is explained, and `QueryParameterError` for invalid edits or edits
    that choose no event of the loop.
    """
    for edit in scenario.edits:
        edit.check()
    loop.check_explained()
    evidence = _evidence(loop, scenario)
    state = edited(loop, scenario, MID)
    run = loop.ended(state)
    times = [time_with(loop, scenario, LOW), loop.per_step(run), time_with(loop, scenario, HIGH)]
    for level, factor in enumerate(loop.noise(level)[0] for level in (LOW, MID, HIGH)):
        times[level] = max(times[level], round(at(scenario.least_ns, level) * factor))
    gains = [loop.plain_ns(level) - times[level] for level in (LOW, MID, HIGH)]
    prediction = Prediction(
        scenario=scenario.name,
        summary=scenario.summary,
        rank=loop.rank,
        steps=tuple(loop.steps["step"].to_list()),
        baseline_ns=loop.baseline_ns,
        predicted_ns=times[MID],
        low_ns=min(times),
        high_ns=max(times),
        gain_low_ns=min(gains),
        gain_high_ns=max(gains),
        limit_before=loop.limit,
        limit_after=loop.bound(run, state.table) if loop.per_step(run) >= times[MID] else "load_data",
        cpu_needs_ns=loop.gpu_free_ns,
        gpu_needs_ns=loop.cpu_free_ns,
        explained_pct=loop.explained_pct,
        assumptions=(*_always(loop), *scenario.assumptions),
        source=scenario.source,
        evidence=evidence,
        edited=_edited(loop, scenario, evidence),
        _loop=loop,
        _state=state,
        _run=run,
    )
    loop.forget()
    return prediction


def _evidence(loop: Loop, scenario: Scenario) -> pl.DataFrame:
    """Return each event chosen by an edit once, even an event inside another chosen event.

    Raises `QueryParameterError` if an edit chooses no event.
    """
    frames = []
    for edit in scenario.edits:
        events = edit.chosen(loop)
        if events.is_empty():
            raise QueryParameterError(
                f"no event of the steps {_steps(loop)} matches {_said(edit.where)}, so {scenario.name} has no effect",
                hint='`hotline sql "select * from annotated_event" TRACE` shows the events.',
            )
        frames.append(events)
    if not frames:
        raise QueryParameterError(f"{scenario.name} has no edits", hint="Give at least one edit, such as ha.Scale.")
    columns = ("event_id", "category", "name", "start_ns", "dur_ns", "step", "phase", "module_path")
    return pl.concat(frames).unique("event_id").sort("event_id").select(columns)


def _said(where: str | pl.Expr) -> str:
    return repr(where) if isinstance(where, str) else "its condition"


def _steps(loop: Loop) -> str:
    steps = loop.steps["step"].to_list()
    return f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def _always(loop: Loop) -> list[str]:
    host, gpu = (100 * (factor - 1) for factor in loop.noise(HIGH))
    assumptions = [
        f"Times of the CPU differ by {percent(host)} from run to run, and those of the GPU by {percent(gpu)}."
        if loop.has_gpu_work
        else f"Times differ by {percent(host)} from run to run.",
        "What is not changed takes as long as it was recorded; recording stretches ops and calls.",
    ]
    if loop.profiler_ns:
        assumptions.append(
            f"The profiler's own work, {duration(loop.profiler_ns)} of each recorded step, is left out of all times."
        )
    if loop.explained_pct < SURE_PCT:
        assumptions.append(
            f"{percent(100 - loop.explained_pct)} of the step are waits that the trace does not explain: the low end"
            " has none of them, the high end all."
        )
    if loop.alike.height == 1:
        assumptions.append("The trace has one step that counts, so nothing is known of how steps differ.")
    return assumptions


def _edited(loop: Loop, scenario: Scenario, evidence: pl.DataFrame) -> dict[str, int]:
    """Return the number of changed events per step, and their recorded GPU and thread times."""
    table = loop.table
    work = np.zeros(len(table.weight), np.bool_)
    host = np.zeros(len(table.weight))
    for edit in scenario.edits:
        events = edit.chosen(loop)
        work = work | (table.of("work") & table.works(events))
        host = np.maximum(host, table.host_shares(events))
    return {
        "edited_events": round(evidence.height / loop.count),
        "edited_gpu_ns": round(float(table.weight[work].sum()) / loop.count),
        "edited_host_ns": round(float((table.weight * host).sum()) / loop.count),
    }
