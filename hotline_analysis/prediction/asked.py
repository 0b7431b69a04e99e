"""What would help: every scenario that applies to a trace, or one of them in detail."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import overload

import polars as pl

from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.prediction import batch, checkpoint  # noqa: F401  # for their scenarios
from hotline_analysis.prediction.loop import Loop, loop_of
from hotline_analysis.prediction.predict import Prediction, Scenario, most_gain, predict
from hotline_analysis.prediction.scenarios import KNOWN
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
    """What would help, and by how much: the time of a step if something were different.

    Without a scenario, a frame of all that come with the package: the largest gain first, and with NULLs and a `reason`
    those that do not apply. Times are of one step in a loop of the usual steps: `baseline_ns` as recorded,
    `predicted_ns` between `low_ns` and `high_ns`, and what the CPU and the GPU each need on their own, `cpu_needs_ns`
    and `gpu_needs_ns`, below which no change of the other side leads. `limit_before` and `limit_after` are what most of
    the step's path is. `edited_events`, `edited_gpu_ns` and `edited_host_ns` say what is changed, per step.

    With one, by name and with its parameters or a `Scenario` of your own, its `Prediction`. `rank` is the lowest of the
    run by default. Raises `QueryParameterError` for a scenario or parameter that is not known or makes no sense, and
    `HotlineError` for a trace from which nothing can be predicted, or to which the scenario does not apply.
    """
    if scenario is None:
        if parameters:
            raise QueryParameterError(
                f"{', '.join(parameters)}: parameters are those of one scenario",
                hint="Name it, as in whatif(trace, 'amp').",
            )
        return _table(loop_of(trace, rank))
    if isinstance(scenario, Scenario):
        if parameters:
            raise QueryParameterError("a scenario of your own has no parameters")
        return predict(loop_of(trace, rank), scenario)
    _known(scenario)
    check_parameters(scenario, parameters)
    loop = loop_of(trace, rank)
    made = KNOWN[scenario].made(loop, parameters)
    if isinstance(made, str):
        raise HotlineError(f"{scenario} does not apply: {made[:1].lower()}{made[1:]}".rstrip("."))
    return predict(loop, made)


def worthwhile(trace: Trace, *, rank: int | None = None, least_pct: float) -> pl.DataFrame:
    """The rows of `whatif` that gain a share of the step, found without replaying what cannot gain as much.

    Raises `HotlineError` for a trace from which nothing can be predicted.
    """
    loop = loop_of(trace, rank)
    found = _table(loop, least_pct * loop.baseline_ns / 100)
    gains = (100 * pl.col("gain_ns") >= least_pct * pl.col("baseline_ns")).fill_null(False)
    return found.filter(gains)


def check_parameters(scenario: str, parameters: Mapping[str, object]) -> dict[str, float | str | Trace]:
    """The parameters as numbers, or text. Raises `QueryParameterError` for those that a scenario does not take."""
    _known(scenario)
    known = KNOWN[scenario]
    known.values(parameters)
    return {name: known.converted(name, value) for name, value in parameters.items()}


def _known(scenario: str) -> None:
    if scenario in KNOWN:
        return
    close = get_close_matches(scenario, KNOWN, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise QueryParameterError(f"there is no scenario {scenario!r}", hint=f"{hint}There are {', '.join(KNOWN)}.")


def _table(loop: Loop, least_ns: float = 0.0) -> pl.DataFrame:
    """One row per scenario, but for those that certainly gain less than so much."""
    loop.check_explained()
    rows: list[dict[str, object]] = []
    reasons: list[dict[str, object]] = []
    for known in KNOWN.values():
        made = known.made(loop, {})
        if isinstance(made, str):
            reasons.append({"scenario": known.name, "summary": f"{known.summary}.", "reason": made})
        elif least_ns and most_gain(loop, made) < least_ns:
            loop.forget()
        else:
            # The prediction itself is large: it holds the replay.
            rows.append(predict(loop, made).as_dict())
    rows.sort(key=lambda row: (row["predicted_ns"], row["scenario"]))
    return pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in [*rows, *reasons]], COLUMNS)
