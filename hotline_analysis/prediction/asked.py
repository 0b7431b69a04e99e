"""Predict possible improvements: every scenario that applies to a trace, or one scenario in detail."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import overload

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction.engine.loop import Loop, loop_of, loop_without_graph
from hotline_analysis.prediction.engine.predict import Prediction, Scenario, most_gain, predict
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.prediction.studies import batch, checkpoint  # noqa: F401  # for their scenarios
from hotline_analysis.run.trace import Trace

COLUMNS = {
    "scenario": pl.String,
    "summary": pl.String,
    "baseline_ns": pl.Int64,
    "predicted_ns": pl.Int64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "gain_ns": pl.Int64,
    "gain_low_ns": pl.Int64,
    "gain_high_ns": pl.Int64,
    "speedup": pl.Float64,
    "limit_before": pl.String,
    "limit_after": pl.String,
    "cpu_needs_ns": pl.Int64,
    "gpu_needs_ns": pl.Int64,
    "edited_events": pl.Int64,
    "edited_gpu_ns": pl.Int64,
    "edited_host_ns": pl.Int64,
    "explained_pct": pl.Float64,
    "reason": pl.String,
}


@overload
def whatif(trace: Trace, scenario: None = None, *, rank: int | None = None) -> pl.DataFrame: ...


@overload
def whatif(
    trace: Trace, scenario: str | Scenario, *, rank: int | None = None, **parameters: float | str | Trace
) -> Prediction: ...


def whatif(
    trace: Trace, scenario: str | Scenario | None = None, *, rank: int | None = None, **parameters: float | str | Trace
) -> pl.DataFrame | Prediction:
    """Predict the step time if something were different: possible improvements and their gains.

    Without a scenario, return a frame of all packaged scenarios, the largest gain first. Scenarios that do not apply
    have NULLs and a `reason`. Times are per step, in a loop of the usual steps: `baseline_ns` as recorded, and
    `predicted_ns` between `low_ns` and `high_ns`. `cpu_needs_ns` and `gpu_needs_ns` are the times that the CPU and the
    GPU need alone; changes of the other side cannot make a step shorter than this. `limit_before` and `limit_after` are
    the largest part of the step's critical path. `edited_events`, `edited_gpu_ns` and `edited_host_ns` are the changed
    events and times, per step.

    With a scenario, given by name with parameters or as your own `Scenario`, return a `Prediction`. `rank` is by
    default the lowest rank of the run. Raises `QueryParameterError` for an unknown scenario or parameter, or an invalid
    value, and `HotlineError` if the trace allows no prediction or the scenario does not apply.
    """
    if scenario is None:
        if parameters:
            raise QueryParameterError(
                f"{', '.join(parameters)}: parameters belong to a scenario",
                hint="Name the scenario, as in whatif(trace, 'amp').",
            )
        return _table(loop_of(trace, rank))
    if isinstance(scenario, Scenario):
        if parameters:
            raise QueryParameterError("your own scenario has no parameters")
        return predict(loop_of(trace, rank), scenario)
    _known(scenario)
    check_parameters(scenario, parameters)
    loop = loop_of(trace, rank)
    variant = KNOWN[scenario].made(loop, parameters)
    if isinstance(variant, str):
        raise HotlineError(f"{scenario} does not apply: {variant[:1].lower()}{variant[1:]}".rstrip("."))
    return predict(loop, variant)


def worthwhile(trace: Trace, *, rank: int | None = None, least_pct: float) -> pl.DataFrame:
    """Return the rows of `whatif` with a gain of at least `least_pct` percent of a step.

    Scenarios that cannot gain this much are not replayed. Raises `HotlineError` if the trace allows no prediction.
    """
    loop = loop_without_graph(trace, rank)
    # Without GPU work most scenarios do not apply. If none does, the dependency graph is not needed.
    if not loop.has_gpu_work and all(isinstance(known.made(loop, {}), str) for known in KNOWN.values()):
        return pl.DataFrame(schema=COLUMNS)
    frame = _table(loop, least_pct * loop.baseline_ns / 100)
    gains = (100 * pl.col("gain_ns") >= least_pct * pl.col("baseline_ns")).fill_null(False)
    return frame.filter(gains)


def applies(trace: Trace, rank: int, scenario: str) -> bool:
    """Whether a scenario can be predicted for a rank, whatever it gains.

    Raises `HotlineError` for a trace from which nothing can be predicted.
    """
    return not isinstance(KNOWN[scenario].made(loop_of(trace, rank), {}), str)


def check_parameters(scenario: str, parameters: Mapping[str, object]) -> dict[str, float | str | Trace]:
    """Convert the parameters to numbers, texts or traces. Raises `QueryParameterError` for invalid parameters."""
    _known(scenario)
    definition = KNOWN[scenario]
    definition.values(parameters)
    return {name: definition.converted(name, value) for name, value in parameters.items()}


def _known(scenario: str) -> None:
    if scenario in KNOWN:
        return
    close = get_close_matches(scenario, KNOWN, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise QueryParameterError(f"there is no scenario {scenario!r}", hint=f"{hint}Scenarios: {', '.join(KNOWN)}.")


def _table(loop: Loop, least_ns: float = 0.0) -> pl.DataFrame:
    """Return one row per scenario, except scenarios that certainly gain less than `least_ns`."""
    loop.check_explained()
    rows: list[dict[str, object]] = []
    reasons: list[dict[str, object]] = []
    for definition in KNOWN.values():
        variant = definition.made(loop, {})
        if isinstance(variant, str):
            reasons.append({"scenario": definition.name, "summary": f"{definition.summary}.", "reason": variant})
        elif least_ns and most_gain(loop, variant) < least_ns:
            loop.forget()
        else:
            # Keep only the row: the prediction itself is large, because it contains the replay.
            rows.append(predict(loop, variant).as_dict())
    rows.sort(key=lambda row: (row["predicted_ns"], row["scenario"]))
    return pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in [*rows, *reasons]], COLUMNS)
