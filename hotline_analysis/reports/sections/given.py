"""What the user said about the training when capturing it, and the throughput that follows."""

from __future__ import annotations

import json
import math

from hotline_analysis.text.formats import safe, shorten
from hotline_analysis.text.masking import mask

_KEY = "hotline_metadata"
_LONGEST = 80
_MOST = 12


def given(metadata: str, step_ns: float | None, taken: frozenset[str]) -> dict[str, str]:
    """Return what a trace's metadata (JSON) says about the training, as facts to show, none of them named as `taken`.

    `step_ns` is the mean duration of its steps; with the batch size it gives samples per second.
    """
    said = json.loads(metadata).get(_KEY)
    if not isinstance(said, dict):
        return {}
    mask(said)  # a run may keep secrets, a report shows none
    facts = {}
    for key, value in list(said.items())[:_MOST]:
        name = shorten(safe(key.replace("_", " ")), 20)
        text = value if isinstance(value, str) else json.dumps(value)
        facts[f"{name} (given)" if name in taken else name] = shorten(safe(text), _LONGEST)
    size = said.get("batch_size")
    if step_ns and isinstance(size, int | float) and not isinstance(size, bool) and math.isfinite(size) and size > 0:
        rate = size / step_ns * 1_000_000_000
        facts["throughput"] = f"{rate:,.0f} samples/s" if rate >= 100 else f"{rate:,.3g} samples/s"
    return facts
