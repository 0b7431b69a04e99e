"""An answer with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a trace.

    `answer` is a word to branch on, `statement` one sentence with the numbers, `advice` what to do about it (empty when
    nothing needs doing), `thresholds` the limits that decided, and `evidence` the frame the numbers come from.
    """

    question: str
    answer: str
    statement: str
    advice: str
    thresholds: Mapping[str, float]
    evidence: pl.DataFrame

    def __str__(self) -> str:
        return f"{self.question} {self.statement}"

    def _repr_html_(self) -> str:
        from html import escape

        from hotline_analysis.humane import safe

        advice = f"<p>{escape(safe(self.advice))}</p>" if self.advice else ""
        return (
            f"<p><strong>{escape(safe(self.question))}</strong> {escape(safe(self.statement))}</p>{advice}"
            f"{self.evidence._repr_html_()}"
        )
