"""Facts about the training given by the user at capture, and the resulting throughput."""

from __future__ import annotations

import json
import math

from hotline_analysis.text.formats import safe, shorten
from hotline_analysis.text.masking import mask

_KEY = "hotline_metadata"
_LONGEST = 80
_MOST = 12


def given(metadata: str, step_ns: float | None, taken: frozenset[str]) -> dict[str, str]:
    """Return the facts about the training in a trace's metadata (JSON), except facts with names in `taken`.

    `step_ns` is the mean step. With a batch size, the result includes samples per second.
    """
    said = json.loads(metadata).get(_KEY)
    if not isinstance(said, dict):
        return {}
    mask(said)  # a run may contain secrets, but a report must not show them
    facts = {}
    for key, value in list(said.items())[:_MOST]:
        name = shorten(safe(key.replace("_", " ")), 20)
        text = value if isinstance(value, str) else json.dumps(value)
        facts[f"{name} (given)" if name in taken else name] = shorten(safe(text), _LONGEST)
    size = said.get("batch_size")
    if step_ns and isinstance(size, int | float) and not isinstance(size, bool) and math.isfinite(size) and size > 0:
        facts["throughput"] = rate_words(size / step_ns * 1_000_000_000)
    return facts


def rate_words(rate: float) -> str:
    """Samples per second in words."""
    return f"{rate:,.0f} samples/s" if rate >= 100 else f"{rate:,.3g} samples/s"
