"""The content of a report without layout: the only input of the renderers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from hotline_analysis import catalog
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.answers.rules import Advice
from hotline_analysis.reports.content import A_STEP, OF_A_JOB, Action, Card, PhaseTime, Section, Sentence
from hotline_analysis.reports.screen import Screen

_ASKED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "device": ("device_use", {}),
    "module_types": ("slowest_modules", {"by": "type"}),
}
"""By section: the query and its parameters, if the name or the parameters differ from the defaults."""


@dataclass(frozen=True)
class Content:
    """The whole content of a report on one trace, or on a comparison."""

    title: str
    facts: Mapping[str, str]
    headline: str
    caveats: Sequence[str]
    """Limitations of this trace."""
    advice: Sequence[Advice]
    """Changes for a shorter step, largest gain first."""
    findings: Sequence[Finding]
    sections: Sequence[Section]
    coverage: str
    recapture: Sequence[str]
    """Recording options for better answers."""
    warnings: Sequence[str] = field(default_factory=tuple)
    subject: str = ""
    """Model, device and number of steps, for a page's title."""
    rank: int | None = None
    """The rank covered by the report; None for a comparison."""
    finding_queries: Sequence[str] = field(default_factory=tuple)
    """The query of each finding, in the same order."""
    scope: Mapping[str, Any] = field(default_factory=dict)
    """The step, phase and module covered by the report; empty for the whole run."""
    sentence: Sentence | None = None
    """The first sentence; None for a report on a part and for a comparison. Their headlines are short."""
    head: Sequence[str] = field(default_factory=tuple)
    """The facts of the first line: model, device, rank, step time, throughput, batch."""
    cards: Sequence[Card] = field(default_factory=tuple)
    """The questions and answers of the first screen."""
    actions: Sequence[Action] = field(default_factory=tuple)
    """At most three recommended changes, best first."""
    phase_times: Sequence[PhaseTime] = field(default_factory=tuple)
    """The phases of a mean step."""
    whole: str = A_STEP
    """The time to which the first screen refers, in words."""
    screen: Screen | None = field(default=None, repr=False)
    """The first screen of a page; None for a part of a run and for a comparison."""

    @property
    def lead(self) -> str:
        """The first sentence, or the headline of a report without a first sentence."""
        return self.sentence.text if self.sentence is not None else self.headline

    @property
    def of_the_job(self) -> list[str]:
        """Sentences on problems of the whole job rather than of one rank."""
        return [self.facts[name] for name in OF_A_JOB if name in self.facts]

    def as_dict(self) -> dict[str, Any]:
        """The content as plain values: times in integer nanoseconds, shares in percent."""
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "sentence": asdict(self.sentence) if self.sentence is not None else None,
            "cards": [asdict(card) for card in self.cards],
            "actions": [asdict(action) for action in self.actions],
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
        """The query and parameters that return the figures; None if no single query does."""
        if query in COMPUTED:
            known = set(COMPUTED[query].parameters)
        else:
            found = [each for each in catalog.queries("answers") if each.name == query]
            if not found or self.rank is None:
                return None
            known = {param.name for param in found[0].params}
        scope = {name: value for name, value in (("rank", self.rank), *self.scope.items()) if name in known}
        return {"query": query, "parameters": {**given, **scope}}
