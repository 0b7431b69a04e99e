"""A report, and the forms that it can take."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotline_analysis.reports.content import Content
from hotline_analysis.reports.renderers import markdown, text

if TYPE_CHECKING:
    from hotline_analysis.charts import Timeline


@dataclass(frozen=True, repr=False)
class Report(Content):
    """A report on one trace. Print it, or take `to_text`, `to_markdown` or `to_json`."""

    def to_text(self, width: int | None = None, color: bool = False) -> str:
        """Text for a terminal, `width` columns wide (default 110), with ANSI colours if wanted."""
        return text.render(self, width=width or 110, color=color)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown. Names from the trace are escaped."""
        return markdown.render(self)

    def to_html(self, timeline: Timeline | None = None) -> str:
        """One page that needs no network; with a timeline (`hotline_analysis.charts.multi_scale`), it is part of it."""
        from hotline_analysis.reports.renderers import html  # draws with altair, which takes long to import

        return html.render(self, timeline)

    def to_json(self) -> str:
        """JSON with exact values: times in integer nanoseconds, shares in per cent."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def __repr__(self) -> str:
        parts = f"{len(self.findings)} findings, {len(self.sections)} sections"
        return f"<Report {self.title!r}: {parts}; print it to read it>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        from hotline_analysis.reports.renderers import html

        return html.fragment(self)
