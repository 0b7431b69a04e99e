"""The trace that comes with the package."""

from __future__ import annotations

from pathlib import Path


def demo_trace() -> Path:
    """Return the path of a trace that comes with the package: three training steps of a small Transformer on a CPU."""
    return Path(__file__).parent / "data" / "demo.json.gz"
