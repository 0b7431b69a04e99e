"""The recorder of a trace other than PyTorch's profiler, and the resulting limitations."""

from __future__ import annotations

import json
from typing import Any

from hotline_analysis.text.formats import safe
from hotline_analysis.vocabulary import RECORDER_KEY

CANNOT_TELL = (
    "Nsight Systems recorded this, which sees no allocations and no types of tensors: memory is unknown, and work is"
    " compared with a peak only where the kernel's name tells its precision. Code is named by ranges and modules, and"
    " by samples of the CPU where the recording has samples with python."
)


def recorder_of(metadata: str) -> dict[str, Any] | None:
    """The recorder in a file's metadata; None for PyTorch's profiler."""
    said = json.loads(metadata).get(RECORDER_KEY)
    return said if isinstance(said, dict) else None


def recorder(metadata: str) -> str | None:
    """The recorder's name and version; None for PyTorch's profiler."""
    said = recorder_of(metadata)
    if said is None:
        return None
    words = [safe(str(said[part])) for part in ("name", "version") if said.get(part)]
    return " ".join(words)[:80]
