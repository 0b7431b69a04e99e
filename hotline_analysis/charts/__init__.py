"""Charts: frames → Altair charts, and the timeline that a page of its own can open level by level."""

from hotline_analysis.charts.timeline import Timeline, timeline

__all__ = ["Timeline", "timeline"]
