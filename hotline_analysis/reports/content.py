"""What a report says, apart from how it looks: renderers read this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.answers.rules import Advice
from hotline_analysis.text.formats import delta, duration, percent, safe

_ASKED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "device": ("device_use", {}),
    "module_types": ("slowest_modules", {"by": "type"}),
}
"""The answers behind sections that have neither its name nor its default parameters."""

OF_A_JOB = ("missing", "slow link", "late")
"""Facts about a job: ranks that are missing, the group whose links are slow, and the rank that the others wait for."""

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
    query: str = ""
    """The query whose header says what the figures mean, if it has not the name of the section."""
    chart: str = ""
    """The chart that draws the rows on a page; none if empty."""

    def __repr__(self) -> str:
        return f"<Section {self.name}: {self.rows.height} rows>"


@dataclass(frozen=True)
class Content:
    """All that a report on one trace says."""

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
    rank: int | None = None
    """The rank that it is about; None for a comparison."""
    finding_queries: Sequence[str] = field(default_factory=tuple)
    """The answers that the findings are, one for each."""
    scope: Mapping[str, Any] = field(default_factory=dict)
    """The step, phase and module that it is about; empty for the whole run."""

    @property
    def of_the_job(self) -> list[str]:
        """What is wrong with the job, not with one rank, in sentences."""
        return [self.facts[name] for name in OF_A_JOB if name in self.facts]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values: times in integer nanoseconds, shares in per cent."""
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "headline": self.headline,
            "caveats": list(self.caveats),
            "advice": [asdict(advice) for advice in self.advice],
            "findings": [
                finding.as_dict() | {"drill": self._drill(query)}
                for finding, query in zip(self.findings, self.finding_queries, strict=True)
            ],
            "sections": [
                {
                    "name": section.name,
                    "title": section.title,
                    "note": section.note,
                    "rows": section.rows.to_dicts(),
                    "drill": self._drill(*_ASKED.get(section.name, (section.query or section.name, {}))),
                }
                for section in self.sections
            ],
            "coverage": self.coverage,
            "recapture": list(self.recapture),
            "warnings": list(self.warnings),
        }

    def _drill(self, query: str, given: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any] | None:
        """The answer behind figures, with the parameters that give it; None where no single answer does."""
        if query in COMPUTED:
            known = set(COMPUTED[query].parameters)
        else:
            found = [each for each in catalog.queries("answers") if each.name == query]
            if not found or self.rank is None:
                return None
            known = {param.name for param in found[0].params}
        scope = {name: value for name, value in (("rank", self.rank), *self.scope.items()) if name in known}
        return {"query": query, "parameters": {**given, **scope}}


def cell(field: Field, value: object) -> str:
    """A value as text, by the kind of its column."""
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
