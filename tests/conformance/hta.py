"""Where a trace is that Holistic Trace Analysis was run on."""

from __future__ import annotations

from functools import cache

from tests.real_traces import TRACES


@cache
def path_of(name: str) -> str:
    found = [path for path in TRACES.rglob("*.json.gz") if str(path.relative_to(TRACES)).startswith(name)]
    assert len(found) == 1, found
    return str(found[0].relative_to(TRACES))
