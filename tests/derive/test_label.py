from pathlib import Path

from hotline_analysis import Trace
from tests.derive.tables import named
from tests.trace_builder import TraceBuilder


def buckets(trace: Trace) -> dict[str, str]:
    found = named(trace, "annotated_event where category in ('kernel', 'gpu_memcpy', 'gpu_memset')", ["bucket"])
    return {name: row[0] for name, row in found.items()}


def test_gpu_work_has_the_labels_of_its_launch(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 50).op("mm", 20, 30).launches("k", 150, 160)
    trace.step(1, 100, 200).annotation("Optimizer.step#SGD.step", 100, 200).op("add", 150, 160)
    columns = ("step", "phase", "module_path", "pass", "bucket", "evidence", "op_id", "self_ns")
    assert named(trace.load(tmp_path), "annotated_event where category in ('cpu_op', 'kernel')", columns) == {
        "mm": (0, "forward", "Net_0", "forward", "module", "nn_module", "mm", 9),
        "k": (0, "forward", "Net_0", "forward", "module", "nn_module", "mm", 10),
        "add": (1, "optimizer", None, None, "optimizer", None, "add", 10),
    }


def test_every_bucket(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("running when the trace begins", 0, 10, correlation=1)
    trace.kernel("launched before the trace began", 30, 40, correlation=2)
    while trace.new_correlation() < 100:
        pass  # the profiler numbers calls in order, so those before the window have smaller numbers
    trace.op("before the steps", 15, 25).launches("warm-up", 50, 55)
    trace.step(0, 100, 300).annotation("enumerate(DataLoader)#x", 100, 120).op("to", 105, 110).launches(
        "load", 115, 116
    )
    trace.module("Net", 0, 120, 140).op("mm", 125, 130, seq=1).launches("in a module", 130, 131)
    trace.op("aten::mse_loss", 140, 150).launches("loss", 150, 151)
    trace.on(2).op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 155, 160)
    trace.launches("accumulate", 160, 161)
    trace.op("StrangeBackward0", 160, 165).launches("backward of unknown", 165, 166)
    trace.op("c10d::allreduce_", 165, 170).launches("all-reduce", 170, 171)
    trace.on(1).annotation("Optimizer.step#SGD.step", 200, 220).op("sgd", 205, 210).launches("optimizer", 210, 211)
    trace.annotation("Optimizer.zero_grad#SGD.zero_grad", 220, 240).op("zero", 225, 230).launches("zero_grad", 230, 231)
    trace.op("metrics", 250, 260).launches("other", 260, 261)
    trace.kernel("of no call", 270, 280, correlation=10_000).kernel("without ids", 280, 290)
    assert buckets(trace.load(tmp_path)) == {
        "running when the trace begins": "pre_window",
        "launched before the trace began": "pre_window",
        "warm-up": "outside_steps",
        "load": "load_data",
        "in a module": "module",
        "loss": "loss",
        "accumulate": "gradient_accumulation",
        "backward of unknown": "backward",
        "all-reduce": "communication",
        "optimizer": "optimizer",
        "zero_grad": "zero_grad",
        "other": "other",
        "of no call": "unlinked",
        "without ids": "unlinked",
    }


def test_a_module_explains_communication_inside_it(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("SyncBatchNorm", 0, 10, 50)
    trace.op("c10d::allgather_", 20, 30).launches("all-gather", 30, 40)
    assert buckets(trace.load(tmp_path)) == {"all-gather": "module"}


def test_before_the_first_call_when_no_work_is_linked(tmp_path: Path) -> None:
    trace = TraceBuilder().runtime("cudaLaunchKernel", 20, 30, correlation=5)
    trace.kernel("before", 10, 15).kernel("after", 40, 50)
    assert buckets(trace.load(tmp_path)) == {"before": "pre_window", "after": "unlinked"}


def test_without_any_cpu_event_all_is_unlinked(tmp_path: Path) -> None:
    """There is no window to be before: the trace has GPU work alone."""
    trace = TraceBuilder().kernel("a", 0, 10, correlation=5).copy(20, 30)
    assert set(buckets(trace.load(tmp_path)).values()) == {"unlinked"}


def test_a_graphs_kernels_have_the_labels_of_its_launch(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 50).runtime("cudaGraphLaunch", 20, 30, correlation=1)
    for number in range(3):
        trace.kernel(f"k{number}", 90 + 10 * number, 99 + 10 * number, correlation=1)
    found = named(trace.load(tmp_path), "annotated_event where category = 'kernel'", ("step", "module_path", "op_id"))
    assert found == {f"k{number}": (0, "Net_0", None) for number in range(3)}


def test_work_of_a_thread_without_phases_is_other(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 50).on(9).op("pin memory", 20, 30).launches("k", 30, 40)
    assert named(trace.load(tmp_path), "annotated_event where category = 'kernel'", ("step", "phase", "bucket")) == {
        "k": (0, "other", "other"),
    }


def test_every_event_with_a_duration_has_one_row(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("mm", 10, 20).launches("k", 30, 40).kernel("stray", 50, 60)
    trace.gpu("gpu_user_annotation", "note", 0, 50).gpu("cuda_sync", "Event Sync", 60, 70)
    opened = trace.load(tmp_path)
    found = opened.sql("select event_id, count(*) as n from annotated_event group by all order by all").rows()
    assert found == [(number, 1) for number in range(len(trace.events))]
    # What is on a GPU track but no work has no place in a step.
    named_rows = named(
        opened, "annotated_event where category in ('gpu_user_annotation', 'cuda_sync')", ("step", "bucket")
    )
    assert named_rows == {"note": (None, None), "Event Sync": (None, None)}
