from pathlib import Path

import pytest

from hotline_analysis import HotlineWarning, Trace
from tests.trace_builder import TraceBuilder

Step = tuple[int, str | None, float, float, str]


def steps(trace: Trace) -> list[Step]:
    found: list[Step] = trace.sql(
        "select step, name, start_ns / 1000, end_ns / 1000, evidence from step order by start_ns"
    ).rows()
    return found


def test_profiler_steps_keep_their_numbers(tmp_path: Path) -> None:
    trace = TraceBuilder().step(14, 0, 100).step(15, 100, 210).op("mm", 120, 130).annotation("train_step 3", 10, 20)
    assert steps(trace.load(tmp_path)) == [
        (14, "ProfilerStep#14", 0, 100, "profiler_step"),
        (15, "ProfilerStep#15", 100, 210, "profiler_step"),
    ]


def test_a_step_ends_where_the_next_one_starts(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 105).step(2, 100, 200)
    assert [(start, end) for _, _, start, end, _ in steps(trace.load(tmp_path))] == [(0, 100), (100, 200)]


def test_a_mark_without_a_start_is_no_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 100).step(2, 100, 200).step(3, 200, 300)
    del trace.events[1]["ts"]
    with pytest.warns(HotlineWarning, match="1 event without a valid start or duration"):
        made = trace.load(tmp_path)
    assert [step for step, *_ in steps(made)] == [1, 3]


def test_marks_that_take_no_time_are_no_steps(tmp_path: Path) -> None:
    """Of two that start together, one would end at once. What they are numbered does not depend on them."""
    trace = TraceBuilder().step(4, 0, 100).step(4, 0, 100).step(5, 100, 100).step(6, 100, 200).op("mm", 10, 20)
    assert steps(trace.load(tmp_path)) == [
        (4, "ProfilerStep#4", 0, 100, "profiler_step"),
        (6, "ProfilerStep#6", 100, 200, "profiler_step"),
    ]


def test_without_a_mark_that_takes_time_the_whole_trace_is_one_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(4, 10, 10).op("mm", 0, 50)
    assert steps(trace.load(tmp_path)) == [(0, None, 0, 50, "whole_trace")]


def test_steps_on_the_gpu_track_are_no_steps(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 100).gpu("gpu_user_annotation", "ProfilerStep#1", 50, 300)
    assert len(steps(trace.load(tmp_path))) == 1


def test_steps_of_the_thread_that_has_most(tmp_path: Path) -> None:
    trace = TraceBuilder().on(2).step(7, 0, 10).on(1).step(1, 0, 100).step(2, 100, 200)
    assert [step for step, *_ in steps(trace.load(tmp_path))] == [1, 2]


@pytest.mark.parametrize("name", ["train_step {}", "step_{}", "iteration={}", "Iter #{}", "batch_{}", "step[{} bs=32]"])
def test_the_users_annotations(tmp_path: Path, name: str) -> None:
    trace = TraceBuilder()
    for number in (5, 6):
        trace.annotation(name.format(number), 100 * number, 100 * number + 90).op("mm", 100 * number, 100 * number + 5)
        trace.annotation("step inside 1", 100 * number + 1, 100 * number + 2)
    assert steps(trace.load(tmp_path)) == [
        (5, name.format(5), 500, 590, "annotation"),
        (6, name.format(6), 600, 690, "annotation"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_1(888_788544)_generation_0(0)",  # vLLM
        "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",  # vLLM of AMD, and SGLang
        "execute_new_3_cached_29",  # vLLM until 0.11
    ],
)
def test_passes_of_an_inference_server(tmp_path: Path, name: str) -> None:
    """They are steps, all counted, where nothing else is called a step, even in one of them."""
    trace = TraceBuilder().annotation(name, 10, 20).op("mm", 11, 15).annotation(name, 30, 40).op("mm", 31, 35)
    assert steps(trace.load(tmp_path, "passes.json")) == [
        (0, name, 10, 20, "annotation"),
        (1, name, 30, 40, "annotation"),
    ]
    trace.annotation("step[DECODE bs=32]", 32, 38)
    assert steps(trace.load(tmp_path, "named.json")) == [(0, "step[DECODE bs=32]", 32, 38, "annotation")]
    trace.step(4, 0, 50)
    assert steps(trace.load(tmp_path, "marked.json")) == [(4, "ProfilerStep#4", 0, 50, "profiler_step")]


def test_annotations_without_numbers_are_counted(tmp_path: Path) -> None:
    trace = TraceBuilder().annotation("train_step", 10, 20).annotation("train_step", 30, 40)
    assert steps(trace.load(tmp_path)) == [
        (0, "train_step", 10, 20, "annotation"),
        (1, "train_step", 30, 40, "annotation"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "Optimizer.step#SGD.step",
        "optimizer step 1",
        "load batch 3",
        "batch_to_device",
        "forward step",
        "DistributedDataParallel.forward",
        "stepwise",
        "footstep 3",
        "fetch_batch",
        "batch_norm_2",
        "execute_context",
    ],
)
def test_names_that_are_no_steps(tmp_path: Path, name: str) -> None:
    trace = TraceBuilder().annotation(name, 10, 20).op("mm", 15, 40)
    assert steps(trace.load(tmp_path)) == [(0, None, 10, 40, "whole_trace")]


def test_without_marks_the_whole_cpu_time_is_one_step(tmp_path: Path) -> None:
    trace = TraceBuilder().op("mm", 50, 60).launches("gemm", 10, 500).on(2).op("add", 40, 55)
    trace.complete("Trace", "PyTorch Profiler (0)", 0, 1000)
    assert steps(trace.load(tmp_path)) == [(0, None, 40, 60, "whole_trace")]


def test_without_cpu_events_the_time_of_the_gpu_is_one_step(tmp_path: Path) -> None:
    trace = TraceBuilder().kernel("a", 50, 60).kernel("b", 70, 80)
    trace.complete("Trace", "PyTorch Profiler (0)", 0, 1000)
    assert steps(trace.load(tmp_path)) == [(0, None, 50, 80, "whole_trace")]


def test_an_event_at_the_border_belongs_to_the_later_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 10, 20).step(2, 20, 30)
    for name, at in [("before", 9), ("first", 10), ("border", 20), ("last", 29), ("after", 30)]:
        trace.op(name, at, at + 1)
    found = trace.load(tmp_path).sql("select name, step from annotated_event where category = 'cpu_op'").rows()
    assert dict(found) == {"before": None, "first": 1, "border": 2, "last": 2, "after": None}


def loop(count: int, *, optimizers: int = 1, batches: int = 1) -> TraceBuilder:
    """Iterations of 100 us: batches, an op, optimizers. 10 us before the first, 50 us of ops after the last."""
    trace = TraceBuilder().op("before", 0, 5)
    for number in range(count):
        begin = 10 + 100 * number
        for batch in range(batches):
            at = begin + 20 * batch
            trace.annotation("enumerate(DataLoader)#_Iter.__next__", at, at + 5).op("mm", at + 6, at + 16)
        for optimizer in range(optimizers):
            at = begin + 60 + 20 * optimizer
            trace.annotation("Optimizer.step#SGD.step", at, at + 15).annotation("Optimizer.step#inner", at + 1, at + 2)
    return trace.op("after", 20 + 100 * count, 70 + 100 * count)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        # a step is what lies between the ends of two optimizers
        (loop(3), [(0, 85), (85, 185), (185, 285)]),
        # so it is when gradients are accumulated over two batches
        (loop(2, batches=2), [(0, 85), (85, 185)]),
        # two optimizers for each batch: a batch starts a step
        (loop(2, optimizers=2), [(10, 110), (110, 270)]),
        # inference: likewise
        (loop(2, optimizers=0), [(10, 110), (110, 270)]),
        # a single batch and optimizer are no loop
        (loop(1), [(0, 170)]),
    ],
    ids=["plain", "accumulation", "two optimizers", "inference", "no loop"],
)
def test_steps_of_a_loop_without_marks(trace: TraceBuilder, expected: list[tuple[int, int]], tmp_path: Path) -> None:
    found = steps(trace.load(tmp_path))
    assert [(start, end) for _, _, start, end, _ in found] == expected
    assert {evidence for *_, evidence in found} == {"loop" if len(expected) > 1 else "whole_trace"}


def test_optimizers_after_one_backward_end_one_step(tmp_path: Path) -> None:
    """Iterations of 100 us: backward at 20, the optimizer of the embeddings at 50, and of the rest at 70."""
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        trace.op("aten::mm", at, at + 10, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at + 20, at + 40, seq=number + 1)
        trace.annotation("Optimizer.step#SparseAdam.step", at + 50, at + 60).op("aten::add_", at + 62, at + 65)
        trace.annotation("Optimizer.step#SGD.step", at + 70, at + 80)
    found = steps(trace.load(tmp_path))
    assert [(start, end) for _, _, start, end, _ in found] == [(0, 80), (80, 180), (180, 280)]


def test_an_optimizer_with_a_closure_is_a_step(tmp_path: Path) -> None:
    """LBFGS calls forward and backward itself, so no backward is between two of its steps."""
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        trace.annotation("Optimizer.step#LBFGS.step", at, at + 90).op("aten::mm", at + 10, at + 20, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at + 30, at + 40, seq=number + 1)
    found = steps(trace.load(tmp_path))
    assert [(start, end) for _, _, start, end, _ in found] == [(0, 90), (90, 190), (190, 290)]


def test_the_last_look_for_a_batch_may_find_none(tmp_path: Path) -> None:
    trace = loop(2, optimizers=0)
    del trace.events[-1]  # the op after the loop
    trace.annotation("enumerate(DataLoader)#_Iter.__next__", 210, 215)
    assert [(start, end) for _, _, start, end, _ in steps(trace.load(tmp_path))] == [(10, 110), (110, 210)]
