"""A prediction: how long a step would take, between which bounds, and what that rests on."""

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
from hotline_analysis.prediction.edits import Edit, Number, at, redraw
from hotline_analysis.prediction.loop import HIGH, LOW, MID, SURE_PCT, Loop, State
from hotline_analysis.prediction.timeline import moved_events, save_timeline
from hotline_analysis.text.formats import duration, percent

_SHOWN = 20


@dataclass(frozen=True)
class Scenario:
    """A change to a loop: a name, edits that are applied in order, and what is assumed.

        ha.Scenario("half the matmuls", [ha.Scale("name like '%gemm%'", 0.5)])

    `summary` says what is done, `source` who found it to work. A step takes at least `least_ns`, whatever else happens.
    """

    name: str
    edits: Sequence[Edit]
    summary: str = ""
    assumptions: Sequence[str] = ()
    source: str = ""
    least_ns: Number = 0.0


@dataclass(frozen=True)
class Prediction:
    """How long a step would take: `predicted_ns`, between `low_ns` and `high_ns`, against `baseline_ns` as recorded.

    Times are of one step of the loop. `gain_ns` is what a step gains, between `gain_low_ns` and `gain_high_ns`: the
    ranges of times contain how much runs of the same program differ, those of gains do not. `limit_before` and
    `limit_after` say what most of the step's path is, as in `step_limits`; `cpu_needs_ns` and `gpu_needs_ns` are the
    step if the other side took no time, as recorded. `explained_pct` of the step as recorded follows from mechanisms
    alone. `assumptions` are sentences, `evidence` the events that were changed, with their times,
    and `edited` how many they are per step, and how long.
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
        """How much shorter a step is expected to get; negative if it gets longer."""
        return self.baseline_ns - self.predicted_ns

    @property
    def speedup(self) -> float:
        """How many times faster a step is expected to get."""
        return self.baseline_ns / max(self.predicted_ns, 1)

    def path(self) -> pl.DataFrame:
        """What the changed step waits for: the edges of its critical path, the last one first, as in `critical_path`.

        `path_ns` adds up to as many steps as the path covers.
        """
        return self._state.table.replay.path(self._run)

    def path_before(self) -> pl.DataFrame:
        """What the step as recorded waits for, likewise."""
        return self._loop.table.replay.path(self._loop.observed)

    def timeline(self) -> pl.DataFrame:
        """The events of the steps as they would run, with `start_ns` and `end_ns` from the start of the first step.

        `recorded_start_ns` and `recorded_end_ns` are their times in the trace. Threads that launch nothing and belong
        to no phase are left out, and so is what takes no time any more.
        """
        return moved_events(self._loop, self._state, self._run)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the timeline as a trace file for ui.perfetto.dev. Raises `ExportExistsError` if the file exists."""
        return save_timeline(self._loop, self.timeline(), path, self.scenario, overwrite=overwrite)

    def as_dict(self) -> dict[str, Any]:
        """All numbers and sentences, in types that JSON has; of the events, their ids."""
        hidden = ("evidence", "edited")
        names = [name for name in self.__dataclass_fields__ if not name.startswith("_") and name not in hidden]
        found = {name: getattr(self, name) for name in names}
        return {
            **found,
            "steps": list(self.steps),
            "assumptions": list(self.assumptions),
            "gain_ns": self.gain_ns,
            "speedup": self.speedup,
            **self.edited,
            "evidence": self.evidence["event_id"].to_list(),
        }

    def __str__(self) -> str:
        between = f"{duration(self.low_ns)} to {duration(self.high_ns)}"
        said = f"{duration(self.predicted_ns)} ({between})" if self.explained_pct >= SURE_PCT else f"between {between}"
        return f"{self.scenario}: a step takes {said}, instead of {duration(self.baseline_ns)}. {self._why()}"

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
        shown = render("notebook_prediction.html", statement=str(self), assumptions=self.assumptions, evidence=evidence)
        return str(shown)


def edited(loop: Loop, scenario: Scenario, level: int) -> State:
    """The loop's weights at an end of the range, once the edits of a scenario are applied."""
    state = redraw(loop, scenario.edits, level)
    for edit in scenario.edits:
        if not edit.is_structural:
            edit.apply(loop, state)
    return state


def most_gain(loop: Loop, scenario: Scenario) -> float:
    """What a step gains at most, found without a replay: by as much as the edits shorten its path as recorded.

    That path still is one when edges change, so no step is shorter than it then is. It is unlimited where edits take
    waits away, or draw the graph again.
    """
    if any(edit.is_structural for edit in scenario.edits):
        return math.inf
    state = edited(loop, scenario, MID)
    rows, part = loop.recorded_path
    if state.gone[rows].any():
        return math.inf
    shorter = np.minimum(loop.table.weight[rows] - state.weight[rows], part)
    return float(shorter.sum()) / (loop.observed.path_steps * loop.count)


def predict(loop: Loop, scenario: Scenario) -> Prediction:
    """Apply a scenario to a loop, at the low and the high end and between.

    Raises `HotlineError` if too little of the loop is explained, and `QueryParameterError` for edits that make no sense
    or choose no event of the loop.
    """
    for edit in scenario.edits:
        edit.check()
    loop.check_explained()
    evidence = _evidence(loop, scenario)
    times: dict[int, int] = {}
    middle: tuple[State, Run] | None = None
    for level in (LOW, MID, HIGH):
        state = edited(loop, scenario, level)
        run = loop.ended(state)
        times[level] = max(loop.per_step(run), round(at(scenario.least_ns, level) * loop.noise(level)[0]))
        if level == MID:
            middle = state, run
    assert middle is not None
    state, run = middle
    gains = [loop.plain_ns(level) - times[level] for level in (LOW, MID, HIGH)]
    found = Prediction(
        scenario=scenario.name,
        summary=scenario.summary,
        rank=loop.rank,
        steps=tuple(loop.steps["step"].to_list()),
        baseline_ns=loop.baseline_ns,
        predicted_ns=times[MID],
        low_ns=min(times.values()),
        high_ns=max(times.values()),
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
    return found


def _evidence(loop: Loop, scenario: Scenario) -> pl.DataFrame:
    """The events that the edits choose, those inside of each other among them."""
    frames = []
    for edit in scenario.edits:
        chosen = edit.chosen(loop)
        if chosen.is_empty():
            raise QueryParameterError(
                f"no event of the steps {_steps(loop)} meets {_said(edit.where)}, so {scenario.name} changes nothing",
                hint='`hotline sql "select * from annotated_event" TRACE` shows what there is.',
            )
        frames.append(chosen)
    if not frames:
        raise QueryParameterError(f"{scenario.name} has no edits", hint="Give at least one, such as ha.Scale.")
    columns = ("event_id", "category", "name", "start_ns", "dur_ns", "step", "phase", "module_path")
    return pl.concat(frames).unique("event_id").sort("event_id").select(columns)


def _said(where: str | pl.Expr) -> str:
    return repr(where) if isinstance(where, str) else "its condition"


def _steps(loop: Loop) -> str:
    steps = loop.steps["step"].to_list()
    return f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def _always(loop: Loop) -> list[str]:
    host, gpu = (100 * (factor - 1) for factor in loop.noise(HIGH))
    said = [
        f"Times of the CPU differ by {percent(host)} from run to run, and those of the GPU by {percent(gpu)}."
        if loop.has_gpu_work
        else f"Times differ by {percent(host)} from run to run.",
        "What is not changed takes as long as it was recorded, the profiler's own time among it.",
    ]
    if loop.explained_pct < SURE_PCT:
        said.append(
            f"{percent(100 - loop.explained_pct)} of the step are waits that the trace does not explain: the low end"
            " has none of them, the high end all."
        )
    if loop.alike.height == 1:
        said.append("The trace has one step that counts, so nothing is known of how steps differ.")
    return said


def _edited(loop: Loop, scenario: Scenario, evidence: pl.DataFrame) -> dict[str, int]:
    """How many events are changed per step, and how long the GPU and the threads take for them as recorded."""
    table = loop.table
    work = np.zeros(len(table.weight), np.bool_)
    host = np.zeros(len(table.weight))
    for edit in scenario.edits:
        chosen = edit.chosen(loop)
        work = work | (table.of("work") & table.works(chosen))
        host = np.maximum(host, table.host_shares(chosen))
    return {
        "edited_events": round(evidence.height / loop.count),
        "edited_gpu_ns": round(float(table.weight[work].sum()) / loop.count),
        "edited_host_ns": round(float((table.weight * host).sum()) / loop.count),
    }
