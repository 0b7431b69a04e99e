"""A trace whose names attack the page that shows them."""

from __future__ import annotations

from tests.trace_builder import TraceBuilder

EVIL = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&\x07\u202e`${1}"
)


def hostile() -> TraceBuilder:
    """Every name that a trace can hold is an attack, or 10,000 characters long."""
    long = EVIL + "x" * 10_000
    trace = TraceBuilder(rank=0).process_name(EVIL).thread_name(EVIL).step(1, 0, 1000)
    trace.frame(EVIL, 1, 999).frame(f"nn.Module: {EVIL}_0", 100, 600, **{"Python module id": 0})
    trace.annotation(long, 105, 390).op(EVIL, 110, 300).op(long, 120, 290)
    trace.launches(EVIL, 300, 500, at=130, until=140).launches(long, 500, 600, at=150, until=160, stream=8)
    trace.op("x" * 10_000, 400, 590).runtime(EVIL, 410, 500)
    return trace
