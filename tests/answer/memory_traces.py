"""Traces of trainings with memory events."""

from __future__ import annotations

from typing import Any

from tests.trace_builder import TraceBuilder


def training(**top: Any) -> TraceBuilder:
    """1,000 bytes are older than the trace. Net.a saves 200, Net.b 40 and later 100; the step is 900 us."""
    trace = TraceBuilder(rank=0, **top).step(0, 0, 900)
    total = 1000

    def block(nbytes: int, at: int, address: int) -> None:
        nonlocal total
        total += nbytes
        trace.memory(nbytes, at, total=total, device=0, address=address)

    trace.annotation("## forward ##", 0, 300).frame("nn.Module: Net_0", 1, 299)
    trace.frame("nn.Module: Linear_0", 10, 100).op("aten::relu", 20, 90)
    block(200, 30, 1)
    trace.frame("nn.Module: Linear_1", 110, 290).op("aten::relu", 120, 280)
    block(40, 130, 2)
    block(-40, 180, 2)
    block(100, 230, 3)
    trace.annotation("## backward ##", 300, 700)
    trace.op("autograd::engine::evaluate_function: ReluBackward0", 400, 600)
    block(-100, 430, 3)
    block(-200, 530, 1)
    trace.annotation("Optimizer.step#Adam.step", 700, 800)
    return trace


def captured() -> dict[str, Any]:
    """Net has 700 bytes of parameters: 300 in a, 390 in b, 10 of its own."""
    sizes = (("net", None, 700), ("net.a", 0, 300), ("net.b", 0, 390))
    modules = [
        {"module_id": n, "parent_id": parent, "name": path, "path": path, "type": "T", "param_bytes": size}
        for n, (path, parent, size) in enumerate(sizes)
    ]
    ops = [{"name": "aten::relu", "module_id": 1, "call": 0}, {"name": "aten::relu", "module_id": 2, "call": 0}]
    return {"version": 1, "modules": modules, "ops": ops}
