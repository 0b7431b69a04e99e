"""An answer with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

_SHOWN = 20  # rows of evidence shown in a notebook


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a trace.

    `answer` is a word to branch on, `statement` a sentence with the numbers, and `advice` the remedy (empty if nothing
    needs doing). `thresholds` are the limits used in the decision, and `evidence` the frame with the underlying rows.
    `numbers` are the exact numbers of the statement, named with their units; a missing number is `None`.
    """

    question: str
    answer: str
    statement: str
    advice: str
    thresholds: Mapping[str, float]
    evidence: pl.DataFrame
    numbers: Mapping[str, int | float | None] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON types, with the evidence as a list of rows."""
        return {
            "question": self.question,
            "answer": self.answer,
            "statement": self.statement,
            "advice": self.advice,
            "thresholds": dict(self.thresholds),
            "numbers": dict(self.numbers),
            "evidence": self.evidence.to_dicts(),
        }

    def __repr__(self) -> str:
        return f"<Finding {self.answer!r}: {self}>"

    def __str__(self) -> str:
        return f"{self.question} {self.statement}"

    def _repr_html_(self) -> str:
        from hotline_analysis.text.html import frame_table, render

        return str(render("notebook_finding.html", finding=self, evidence=frame_table(self.evidence, _SHOWN)))
