"""Read the data and the title of a chart."""

from __future__ import annotations

from typing import Any


def data(chart: Any) -> list[dict[str, Any]]:
    """All rows of a chart; `to_dict` checks the spec against the schema."""
    spec = chart.to_dict()
    assert sum(len(rows) for rows in spec["datasets"].values()) < 5000
    return [row for rows in spec["datasets"].values() for row in rows]


def title(chart: Any) -> str:
    return str(chart.to_dict()["title"]["text"])
