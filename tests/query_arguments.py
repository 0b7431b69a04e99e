"""A training in which every query has rows, and arguments for each query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotline_analysis.catalog import Query
from tests.trace_builder import TraceBuilder

# Parameters without a default; every query must run with them.
REQUIRED: Mapping[str, object] = {
    **{"device": 0, "rank": 0, "start_ns": 0, "end_ns": 1_000_000, "event": 1, "step": 0},
    "samples": 2,
}
CUT: dict[str, Any] = {"grid": [4, 1, 1], "block": [128, 1, 1]}
SHAPES: dict[str, Any] = {
    "Input Dims": [[8], [4, 16], [16, 8], [], []],
    "Input type": ["float", "float", "float", "Scalar", "Scalar"],
}


def training(rank: int = 0, late: int = 0) -> TraceBuilder:
    """Two steps of everything that a query looks at: modules, loss, autograd, optimizer, copies, a collective."""
    trace = TraceBuilder(rank=rank)
    for number in range(2):
        at = 1000 * number
        seq = 10 * number

        def ids(start: int, end: int, offset: int = at) -> tuple[int, int]:
            return offset + start, offset + end

        trace.on(1).step(number, *ids(0, 900))
        trace.annotation("enumerate(DataLoader)#_Iter.__next__", *ids(5, 50))
        trace.op("aten::copy_", *ids(60, 70)).launches("copy", *ids(75, 80), category="gpu_memcpy", nbytes=64)
        trace.module("Net", 0, *ids(100, 200)).frame("net.py(7): forward", *ids(105, 195))
        trace.module("Linear", 0, *ids(110, 150))
        trace.op("aten::addmm", *ids(120, 140), seq=seq, **SHAPES).launches("gemm", *ids(130, 170))
        trace.module("ReLU", 0, *ids(160, 190))
        trace.op("aten::relu", *ids(165, 180), seq=seq + 1).launches("relu", *ids(175, 185), stream=8)
        trace.op("aten::mse_loss", *ids(210, 230), seq=seq + 2).launches("loss", *ids(240, 250))
        trace.on(2).backward("MseLossBackward0", *ids(300, 320), seq=seq + 2).launches("loss_grad", *ids(310, 330))
        trace.backward("ReluBackward0", *ids(330, 350), seq=seq + 1).launches("relu_grad", *ids(350, 360))
        trace.backward("AddmmBackward0", *ids(360, 400), seq=seq).launches("gemm_grad", *ids(400, 450), **CUT)
        trace.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", *ids(400, 420))
        weight: dict[str, Any] = {"Input Dims": [[4, 16]], "Input type": ["float"]}
        trace.op("torch::autograd::AccumulateGrad", *ids(400, 420), **weight)
        trace.launches("add", *ids(450, 455))
        trace.op("c10d::allreduce_", *ids(430, 440)).launches(
            "ncclDevKernel_AllReduce", *ids(440 + late, 600), stream=9
        )
        trace.on(1).annotation("Optimizer.step#SGD.step", *ids(500, 600))
        trace.op("aten::_foreach_add_", *ids(510, 530)).launches("sgd", *ids(620, 640 + late // 10))
        trace.annotation("Optimizer.zero_grad#SGD.zero_grad", *ids(610, 640))
        trace.op("aten::item", *ids(700, 800)).runtime(
            "cudaStreamSynchronize", *ids(710, 790), correlation=900 + number
        )
        trace.frame("log.py(3): write", *ids(820, 860))
        trace.memory(512, at + 125, total=1024, device=0, address=seq + 1)
        trace.memory(-512, at + 380, total=512, device=0, address=seq + 1)
        counters = {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 64, "dram__bytes.sum": 256}
        trace.complete("cuda_profiler_range", "gemm", *ids(130, 170), counters)
    return trace


def arguments(query: Query, **given: object) -> dict[str, object]:
    needed = {param.name: REQUIRED[param.name] for param in query.params if param.required}
    return {**query.bind(**{**needed, **given})}
