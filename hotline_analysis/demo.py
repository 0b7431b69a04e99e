"""The demo trace of the package."""

from __future__ import annotations

from pathlib import Path


def demo_trace() -> Path:
    """Return the path of the demo trace: three training steps of a U-Net on an H100."""
    return Path(__file__).parent / "data" / "demo.json.gz"
