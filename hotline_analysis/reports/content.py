"""The parts of a report's content: sections with their fields, the first sentence, cards, actions and phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from hotline_analysis.text.formats import delta, duration, percent, safe

OF_A_JOB = ("missing", "slow link", "late")
"""Facts about a job: missing ranks, the group with slow links, and the rank delaying all others."""

Kind = Literal["name", "place", "count", "time", "delta", "share"]


@dataclass(frozen=True)
class Field:
    """One column of a section: the frame's column, the title, and the kind of values."""

    column: str
    title: str
    kind: Kind

    @property
    def is_text(self) -> bool:
        """Whether the values are texts. Texts are left-aligned and may be shortened."""
        return self.kind in ("name", "place")


@dataclass(frozen=True)
class Section:
    """One table: the rows, the columns to show, and a note on how to read the table."""

    name: str
    title: str
    note: str
    fields: Sequence[Field]
    rows: pl.DataFrame
    """Exact values: times in integer nanoseconds, shares in percent."""
    query: str = ""
    """The query whose header describes the figures; empty if the query has the section's name."""
    chart: str = ""
    """The chart of the rows on a page; empty for no chart."""

    def __repr__(self) -> str:
        return f"<Section {self.name}: {self.rows.height} rows>"


@dataclass(frozen=True)
class Sentence:
    """The main reason for the step time, with one number: the first sentence of a report in any format."""

    text: str
    """One or two sentences: the symptom with the share of the time, the cause, and the step without the cause."""
    cause: str = ""
    """The part of the text with the cause; empty if the cause is unknown."""
    share_pct: float | None = None
    """The share in the text: of the loop, or of the GPU's observed time."""
    step_ns: int | None = None
    """The mean step."""
    without_ns: int | None = None
    """The mean step without the cause; None if the text does not mention this time."""


A_STEP, THE_RECORDING = "a step", "the recording"
"""The time to which shares and durations refer: without steps, all times are of the whole recording."""


@dataclass(frozen=True)
class Card:
    """A question with a short answer."""

    question: str
    answer: str
    note: str = ""
    """A figure supporting the answer."""

    def __str__(self) -> str:
        return f"{self.answer}: {self.note}" if self.note else self.answer


@dataclass(frozen=True)
class Action:
    """A recommended change: a piece of advice, with the mean step before and after the change."""

    title: str
    what: str
    """The finding of the rule, with count and duration."""
    where: str
    """The module and the line of code; empty if the trace has neither."""
    do: str
    """One or two sentences describing the change."""
    code: str
    """The change as code."""
    rule: str
    event_id: int
    step_ns: int
    after_ns: int
    """The mean step after the change: predicted, or else a lower bound."""
    low_ns: int | None = None
    high_ns: int | None = None
    """The range of the prediction; None if `after_ns` is a lower bound."""
    gains: bool = True
    """Whether the change shortens the step. Otherwise the change only tells more about the time found, and `after_ns`
    is the step without this time."""
    whole: str = A_STEP
    """The time that the change shortens, in words."""

    @property
    def gain_pct(self) -> float:
        """The reduction of the mean step in percent."""
        return 100 * (self.step_ns - self.after_ns) / max(self.step_ns, 1)

    @property
    def change(self) -> str:
        """The step before and after: `26.1 ms → 11.5 ms (8.97 ms to 13.6 ms)`, or with `at best` for a lower bound.

        For a change without a gain of its own, this is the found time.
        """
        if not self.gains:
            return f"tells more about {duration(self.step_ns - self.after_ns)} of {self.whole}"
        said = f"{duration(self.step_ns)} → {duration(self.after_ns)}"
        if self.low_ns is None or self.high_ns is None:
            return f"{said} at best"
        return f"{said} ({duration(self.low_ns)} to {duration(self.high_ns)})"


@dataclass(frozen=True)
class PhaseTime:
    """The main thread's time in one phase of a mean step; shares add up to 100."""

    phase: str
    time_ns: int
    share_pct: int
    waiting_ns: int
    """The part of the time spent waiting for the GPU."""


def cell(field: Field, value: object) -> str:
    """Format a value by the kind of the column."""
    if value is None:
        return "–"
    if field.kind == "time" and isinstance(value, int | float):
        return duration(value)
    if field.kind == "delta" and isinstance(value, int | float):
        return delta(value)
    if field.kind == "share" and isinstance(value, int | float):
        return percent(value)
    if field.kind == "count" and isinstance(value, int):
        return f"{value:,}" if field.title not in ("step", "rank") else str(value)
    return safe(str(value))
