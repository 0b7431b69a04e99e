"""What a report is made of, apart from how it looks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from hotline_analysis.analyze import Finding
from hotline_analysis.analyze.rules import Advice

if TYPE_CHECKING:
    from hotline_analysis.charts import Timeline

Kind = Literal["name", "place", "count", "time", "delta", "share"]


@dataclass(frozen=True)
class Field:
    """One column of a section: the frame's column, its title, and what its values are."""

    column: str
    title: str
    kind: Kind

    @property
    def is_text(self) -> bool:
        """Whether the values are texts, which stand left and may be shortened."""
        return self.kind in ("name", "place")


@dataclass(frozen=True)
class Section:
    """One table: the rows to show, the exact frame they come from, and how to read it."""

    name: str
    title: str
    note: str
    fields: Sequence[Field]
    rows: pl.DataFrame
    """Times are integer nanoseconds, shares per cent."""

    def __repr__(self) -> str:
        return f"<Section {self.name}: {self.rows.height} rows>"


@dataclass(frozen=True)
class Report:
    """A report on one trace. Print it, or take `to_text`, `to_markdown` or `to_json`."""

    title: str
    facts: Mapping[str, str]
    headline: str
    caveats: Sequence[str]
    """What this trace cannot tell."""
    advice: Sequence[Advice]
    """What would make a step shorter, the largest gain first."""
    findings: Sequence[Finding]
    sections: Sequence[Section]
    coverage: str
    recapture: Sequence[str]
    """What to record for a better answer."""
    warnings: Sequence[str] = field(default_factory=tuple)
    subject: str = ""
    """The model, the device and the number of steps, for a page's title."""

    def to_text(self, width: int | None = None, color: bool = False) -> str:
        """Text for a terminal, `width` columns wide (default 110), with ANSI colours if wanted."""
        from hotline_analysis.report.text import render

        return render(self, width=width or 110, color=color)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown. Names from the trace are escaped."""
        from hotline_analysis.report.markdown import render

        return render(self)

    def to_html(self, timeline: Timeline | None = None) -> str:
        """One page that needs no network; with a timeline (`hotline_analysis.charts.timeline`), it is part of it."""
        from hotline_analysis.report.html import render

        return render(self, timeline)

    def to_json(self) -> str:
        """JSON with exact values: times in integer nanoseconds, shares in per cent."""
        return json.dumps(self._as_dict(), indent=2) + "\n"

    def _as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "headline": self.headline,
            "caveats": list(self.caveats),
            "advice": [asdict(advice) for advice in self.advice],
            "findings": [finding.as_dict() for finding in self.findings],
            "sections": [
                {"name": section.name, "title": section.title, "note": section.note, "rows": section.rows.to_dicts()}
                for section in self.sections
            ],
            "coverage": self.coverage,
            "recapture": list(self.recapture),
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        parts = f"{len(self.findings)} findings, {len(self.sections)} sections"
        return f"<Report {self.title!r}: {parts}; print it to read it>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        from hotline_analysis.report.html import fragment

        return fragment(self)
