"""Reports and their output formats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotline_analysis.reports.renderers import markdown, screen, text
from hotline_analysis.reports.whole import Content

if TYPE_CHECKING:
    from hotline_analysis.charts import Timeline

_MORE = "hotline report TRACE --all or -o page.html; hotline whatif TRACE"


@dataclass(frozen=True, repr=False)
class Report(Content):
    """A report on one trace or on a comparison.

    `print(report)` shows the first screen. `to_text`, `to_markdown`, `to_html` and `to_json` return the whole report.
    """

    def to_text(self, width: int | None = None, color: bool = False) -> str:
        """All sections as text for a terminal of `width` columns (default 110), with ANSI colours if `color`."""
        return text.render(self, width=width or 110, color=color)

    def to_screen(
        self, width: int | None = None, color: bool = False, more: str = _MORE, ascii_only: bool = False
    ) -> str:
        """The first screen as text: the first sentence, the answers, a picture of the step, and recommended changes.

        With `ascii_only`, the picture and all signs are ASCII, and only names from the trace may have other characters.
        The text has at most 45 lines for a `width` of at least 60 columns (default 100). The last line lists the
        commands in `more`, which show more. A comparison or a report on a part of a run is short and shown in full.
        """
        if self.sentence is None:
            return self.to_text(width, color)
        return screen.render(self, width=width or 100, color=color, more=more, ascii_only=ascii_only)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown. Names from the trace are escaped."""
        return markdown.render(self)

    def to_html(self, timeline: Timeline | None = None) -> str:
        """One page without network access, with the timeline (`hotline_analysis.charts.multi_scale`) if given."""
        from hotline_analysis.reports.renderers import html  # imports altair, which is slow to import

        return html.render(self, timeline)

    def to_json(self) -> str:
        """JSON with exact values: times in integer nanoseconds, shares in percent."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def __repr__(self) -> str:
        parts = f"{len(self.findings)} findings, {len(self.sections)} sections"
        return f"<Report {self.title!r}: {parts}; print it to read it>"

    def __str__(self) -> str:
        return self.to_screen()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        from hotline_analysis.reports.renderers import html

        return html.fragment(self)
