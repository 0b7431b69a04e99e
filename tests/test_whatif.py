"""Predictions on small loops whose times can be worked out by hand."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of
from tests.trace_builder import TraceBuilder
from tests.whatif_traces import two_kernels, with_gradients

US = 1000


def loop(host_us: int, gpu_us: int, *, waits: bool = False) -> TraceBuilder:
    """Steps of `host_us` on the CPU, each of which launches one kernel of `gpu_us`; with `waits`, each waits for it.

    The first one is a millisecond longer, so it counts as warm-up.
    """
    trace = TraceBuilder(rank=0)
    at = free = 1000
    for number in range(5):
        begins = max(at + 5, free)
        free = begins + gpu_us
        ends = free + 1 if waits else at + host_us
        trace.step(number, at if number else 0, ends).annotation("work", at, at + host_us).op("op", at, at + 10)
        trace.launches("kernel", begins, free, at=at, until=at + 2)
        if waits:
            trace.runtime("cudaDeviceSynchronize", at + host_us, ends, correlation=trace.new_correlation())
        at = ends
    return trace.annotation("the end", at, max(at + 1, free))


def changed(trace: ha.Trace, *edits: object) -> ha.Prediction:
    return ha.whatif(trace, ha.Scenario("mine", list(edits)))  # type: ignore[arg-type]


def test_half_the_kernel_is_half_the_step_until_the_cpu_is_the_limit(tmp_path: Path) -> None:
    trace = loop(30, 100).load(tmp_path)
    half = changed(trace, ha.Scale("category = 'kernel'", 0.5))
    assert (half.baseline_ns, half.predicted_ns) == (100 * US, 50 * US)
    # equal steps: the range is the noise of the GPU alone, 4 %
    assert (half.low_ns, half.high_ns) == (48 * US, 52 * US)
    # what a step gains is that of a step with the same noise: 96 - 48 to 104 - 52
    assert (half.gain_low_ns, half.gain_ns, half.gain_high_ns) == (48 * US, 50 * US, 52 * US)
    assert (half.limit_before, half.limit_after) == ("computing", "computing")
    assert (half.cpu_needs_ns, half.gpu_needs_ns) == (30 * US, 100 * US)
    tenth = changed(trace, ha.Scale("name = 'kernel'", 0.1))
    # the CPU needs 30 us, a tenth more or less from run to run
    assert (tenth.predicted_ns, tenth.low_ns, tenth.high_ns) == (30 * US, 27 * US, 33 * US)
    assert tenth.limit_after in ("python", "launching")
    assert tenth.evidence["name"].unique().to_list() == ["kernel"]


def unlike(*lengths_us: int) -> TraceBuilder:
    """Steps on the CPU: an op of 40 us in each, and then the op `rest`."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number, length in enumerate(lengths_us):
        trace.step(number, at, at + length).op("aten::linear", at, at + 40).op("rest", at + 40, at + length)
        at += length
    return trace


@pytest.mark.parametrize(
    ("lengths", "edit", "predicted", "low"),
    [
        # Of 1,100 us in six steps, each step saves 40 us. Another run may have no long step: 60 us, 10 % less.
        ((100, 100, 100, 100, 100, 600), ha.Scale("name = 'aten::linear'", 0), 860 / 6, 0.9 * 60),
        ((100, 600, 100, 100, 100, 100), ha.Scale("name = 'aten::linear'", 0), 860 / 6, 0.9 * 60),
        # Only the long step saves time, so that all steps take 100 us.
        ((100, 100, 100, 100, 100, 600), ha.Scale("dur_ns = 560000", 60 / 560), 100, 0.9 * 100),
        # Long and short steps take turns, and each turn of 700 us saves 80.
        ((100, 600) * 4, ha.Scale("name = 'aten::linear'", 0), 310, 0.9 * 310),
    ],
)
def test_with_a_long_step_among_few_the_low_end_is_the_shortest_step(
    lengths: tuple[int, ...], edit: ha.Scale, predicted: float, low: float, tmp_path: Path
) -> None:
    found = changed(unlike(*lengths).load(tmp_path), edit)
    assert found.predicted_ns == pytest.approx(predicted * US, abs=1)
    assert found.low_ns == pytest.approx(low * US, abs=1)
    assert found.high_ns >= 1.1 * found.predicted_ns - 1


def test_of_many_events_one_step_stands_for_all_that_are_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal steps give the same numbers; of steps that launch other kernels, or last longer, none stands for all."""
    edit = ha.Scale("category = 'kernel'", 0.5)
    every = changed(loop(30, 100).load(tmp_path, "every.json"), edit)
    monkeypatch.setattr("hotline_analysis.prediction.engine.loop._MANY_EVENTS", 0)
    one = changed(loop(30, 100).load(tmp_path, "one.json"), edit)
    assert (len(every.steps), len(one.steps)) == (4, 1)
    assert (one.baseline_ns, one.low_ns, one.predicted_ns, one.high_ns) == (100 * US, 48 * US, 50 * US, 52 * US)
    assert (one.gain_low_ns, one.gain_high_ns) == (every.gain_low_ns, every.gain_high_ns)
    other = loop(30, 100)
    other.events[-2]["name"] = "another"  # the last kernel
    assert other.events[-2]["cat"] == "kernel"
    assert len(changed(other.load(tmp_path, "other.json"), edit).steps) == 4


def test_three_numbers_give_the_ends_of_the_range(tmp_path: Path) -> None:
    trace = loop(30, 100).load(tmp_path)
    found = changed(trace, ha.Scale("category = 'kernel'", (0.5, 0.6, 0.8)))
    assert (found.low_ns, found.predicted_ns, found.high_ns) == (48 * US, 60 * US, round(83.2 * US))
    assert str(found) == (
        "mine: a step takes 60.0 µs (48.0 µs to 83.2 µs), instead of 100 µs. What it then waits for most is computing"
        " on the GPU."
    )


def test_removed_work_takes_its_launch_and_its_gap_with_it(tmp_path: Path) -> None:
    """Kernels of 40 and 60 us back to back on a stream: 100 us for a step; the CPU needs 20."""
    trace = two_kernels(20, 40, 60).load(tmp_path)
    assert changed(trace, ha.Remove("name = 'k0'")).predicted_ns == 60 * US
    assert changed(trace, ha.Remove("name = 'k1'")).predicted_ns == 40 * US
    # without the kernels, the CPU is the limit: 20 us, less the two calls of 1 us each
    gone = ha.Remove("category = 'kernel'")
    assert changed(trace, gone).predicted_ns == 18 * US
    assert changed(trace, ha.Remove("category = 'kernel'", host=False)).predicted_ns == 20 * US
    # an op that is removed launches nothing
    assert changed(trace, ha.Remove("name = 'aten::work'")).predicted_ns == 0


def test_scaled_ops_take_their_calls_with_them(tmp_path: Path) -> None:
    trace = two_kernels(100, 10, 10).load(tmp_path)
    assert changed(trace, ha.Scale("name = 'aten::work'", 0.5)).predicted_ns == 50 * US
    assert changed(trace, ha.Scale("category = 'cuda_runtime'", 0.5)).predicted_ns == 99 * US
    # a condition that selects an op and what is inside of it counts their time once
    both = changed(trace, ha.Scale("class is null", 0.5))
    assert both.predicted_ns == 50 * US


def test_inserted_time_counts_once_per_event(tmp_path: Path) -> None:
    trace = two_kernels(20, 40, 60).load(tmp_path)
    assert changed(trace, ha.Insert("name = 'k0'", 15 * US)).predicted_ns == 115 * US
    assert changed(trace, ha.Insert("name = 'aten::work'", 90 * US)).predicted_ns == 110 * US
    # more than 32 bits of nanoseconds
    assert changed(trace, ha.Insert("name = 'aten::work'", 10**7 * US)).predicted_ns == (10**7 + 20) * US


def test_fused_kernels_are_as_long_as_a_share_of_both_but_not_less_than_one(tmp_path: Path) -> None:
    trace = two_kernels(20, 40, 60).load(tmp_path)
    assert changed(trace, ha.Fuse("name like 'k%'", 0.8)).predicted_ns == 80 * US
    assert changed(trace, ha.Fuse("name like 'k%'", 0.1)).predicted_ns == 60 * US


def test_a_stretch_takes_at_most_what_it_is_given(tmp_path: Path) -> None:
    trace = two_kernels(100, 10).load(tmp_path)
    assert changed(trace, ha.Take("name = 'aten::work'", 30 * US)).predicted_ns == 30 * US
    assert changed(trace, ha.Take("name = 'aten::work'", 500 * US)).predicted_ns == 100 * US
    assert changed(two_kernels(5, 40, 60).load(tmp_path), ha.Take("name = 'k1'", 7 * US)).predicted_ns == 47 * US


def test_without_waiting_both_sides_run_beside_each_other(tmp_path: Path) -> None:
    """A step that synchronises takes 136 us (test_replay); without, the longer side: the kernel of 130."""
    trace = loop(100, 130, waits=True).load(tmp_path)
    found = changed(trace, ha.Unwait("name = 'cudaDeviceSynchronize'"))
    assert (found.baseline_ns, found.predicted_ns) == (136 * US, 130 * US)
    named = ha.whatif(trace, "no_sync")
    assert named.predicted_ns == 130 * US
    assert set(named.evidence["name"]) == {"cudaDeviceSynchronize"}


def test_a_cpu_that_gets_faster_is_held_up_by_a_full_queue(tmp_path: Path) -> None:
    """The CPU launches 1,500 kernels of 20 us, 20 us apart, works for 25 ms, and waits for them. Then 2 us apart."""
    count, kernel, rest = 1500, 20, 25_000
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(4):
        begin, free = at, 0
        trace.op("aten::launches", begin, begin + 20 * count)
        for _ in range(count):
            free = max(at + 5, free) + kernel
            trace.launches("kernel", free - kernel, free, at=at, until=at + 2)
            at += 20
        trace.op("aten::other", at, at + rest)
        at += rest
        trace.runtime("cudaDeviceSynchronize", at, at + 10, correlation=trace.new_correlation())
        at += 10
        trace.step(number, begin, at)
    trace.annotation("the end", at, at + 1)
    found = changed(trace.load(tmp_path), ha.Scale("name = 'aten::launches'", 0.1))
    # one step by hand: a call ends when the kernel 1,001 before it has started
    starts: list[int] = []
    host = busy = 0
    for place in range(count):
        call = host
        host = max(call + 2, starts[place - 1001] if place > 1000 else 0)
        starts.append(max(call + 5, busy))
        busy = starts[-1] + kernel
    held_up = max(host + rest, busy) + 10
    assert (busy, held_up) == (count * kernel + 5, 34_975)
    assert abs(found.predicted_ns / US - held_up) < 0.005 * held_up


def test_moved_work_runs_beside_the_rest(tmp_path: Path) -> None:
    """Kernels of 40 and 60 us take turns on one stream; on two, the step takes as long as the longer one."""
    trace = two_kernels(20, 40, 60).load(tmp_path)
    assert changed(trace, ha.Move("name = 'k0'")).predicted_ns == 60 * US
    scaled = changed(trace, ha.Move("name = 'k0'"), ha.Scale("name = 'k1'", 0.5))
    assert scaled.predicted_ns == 40 * US


def loading(fetch_us: int, rest_us: int, kind: str = "Single") -> TraceBuilder:
    """Steps in which a batch is fetched, and then an op runs on the CPU."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(5):
        trace.step(number, at, at + fetch_us + rest_us)
        fetched = at + fetch_us
        trace.op(f"enumerate(DataLoader)#_{kind}ProcessDataLoaderIter.__next__", at, fetched)
        trace.op("aten::conv2d", fetched, fetched + rest_us)
        at = fetched + rest_us
    return trace.annotation("the end", at, at + 1)


def test_a_loader_with_workers(tmp_path: Path) -> None:
    """30 ms to load and 50 ms of work: with workers, the batch takes 1.5 ms, or 5 if one says so."""
    trace = loading(30_000, 50_000).load(tmp_path)
    found = ha.whatif(trace, "loader")
    assert (found.baseline_ns, found.predicted_ns) == (80_000 * US, 51_500 * US)
    assert found.low_ns == pytest.approx(0.9 * 50_200 * US, rel=1e-6)
    assert found.high_ns == pytest.approx(1.1 * 53_000 * US, rel=1e-6)
    assert "At least 1 workers" in " ".join(found.assumptions)
    assert ha.whatif(trace, "loader", batch_ms=5).predicted_ns == 55_000 * US
    # 120 ms to load: two workers have a batch every 60 ms
    slow = loading(120_000, 50_000).load(tmp_path, "slow.json")
    two = ha.whatif(slow, "loader", workers=2)
    assert (two.predicted_ns, two.low_ns, two.high_ns) == (60_000 * US, 54_000 * US, 66_000 * US)
    assert ha.whatif(slow, "loader", workers=8).predicted_ns == 51_500 * US


def test_the_way_back_from_workers_is_not_known(tmp_path: Path) -> None:
    trace = loading(1_000, 50_000, "Multi").load(tmp_path)
    with pytest.raises(ha.HotlineError, match="the workers' time per batch"):
        ha.whatif(trace, "loader", workers=0)
    with pytest.raises(ha.HotlineError, match="loader does not apply: workers load the batches already"):
        ha.whatif(trace, "loader")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("name", "is not a condition: the type is not boolean"),
        ("nothing_of_the_kind = 3", "is not a condition"),
        ("name = 'k0'; drop table event", "is not a condition"),
        ("1 = 1) or (1 = 1", "is not a condition"),
        ("exists (select 1 from read_csv('/etc/passwd'))", "is not a condition"),
        ("exists (select 1 from '/etc/passwd')", "is not a condition"),
        ("count(*) > 1", "is not a condition"),
        ("", "is not a condition"),
        ("name = 'not there'", "no event of the steps 1 to 4 meets \"name = 'not there'\", so mine changes nothing"),
    ],
)
def test_conditions_that_are_none(tmp_path: Path, where: str, said: str) -> None:
    trace = two_kernels(20, 40).load(tmp_path)
    with pytest.raises(ha.QueryParameterError) as error:
        changed(trace, ha.Scale(where, 0.5))
    assert said in error.value.message


def test_a_condition_can_look_at_other_events(tmp_path: Path) -> None:
    trace = two_kernels(20, 40, 60).load(tmp_path)
    longest = "dur_ns = (select max(dur_ns) from event where class is not null)"
    assert changed(trace, ha.Scale(longest, 0.5)).predicted_ns == 70 * US


def test_numbers_that_make_no_sense(tmp_path: Path) -> None:
    trace = two_kernels(20, 40).load(tmp_path)
    for edit in (ha.Scale("name = 'k0'", -1), ha.Insert("name = 'k0'", (1, 2, float("nan")))):
        with pytest.raises(ha.QueryParameterError, match="must be 0 or more"):
            changed(trace, edit)
    with pytest.raises(ha.QueryParameterError, match="from the shortest step to the longest"):
        changed(trace, ha.Scale("name = 'k0'", (0.9, 0.5, 0.1)))
    with pytest.raises(ha.QueryParameterError, match="there is no scenario 'ampp'") as error:
        ha.whatif(trace, "ampp")
    assert "Did you mean amp?" in (error.value.hint or "")
    with pytest.raises(ha.QueryParameterError, match="amp has no parameter 'gemm'"):
        ha.whatif(trace, "amp", gemm=2)
    with pytest.raises(ha.QueryParameterError, match=r"matmul of amp must be 0\.001 or more, not -2"):
        ha.whatif(trace, "amp", matmul=-2)
    with pytest.raises(ha.QueryParameterError, match="parameters belong to a scenario"):
        ha.whatif(trace, matmul=2)  # type: ignore[call-overload]
    with pytest.raises(ha.QueryParameterError, match="mine has no edits"):
        changed(trace)


def test_traces_that_tell_nothing(tmp_path: Path) -> None:
    no_steps = TraceBuilder(rank=0).op("op", 0, 40).launches("kernel", 25, 125, at=20, until=22)
    with pytest.raises(ha.HotlineError, match="the trace shows no steps"):
        ha.whatif(no_steps.load(tmp_path))
    one = TraceBuilder(rank=0).op("op", 0, 40)
    with pytest.raises(ha.HotlineError, match="the trace shows no steps"):
        ha.whatif(one.load(tmp_path, "one.json"))
    lost = TraceBuilder(rank=0)
    for number in range(3):
        lost.step(number, 100 * number, 100 * number + 100).op("op", 100 * number, 100 * number + 90)
        lost.runtime("cudaLaunchKernel", 100 * number + 5, 100 * number + 8, correlation=number + 1)
    with pytest.raises(ha.HotlineError, match="the file has no GPU work"):
        ha.whatif(lost.load(tmp_path, "lost.json"))


def test_a_step_of_waits_that_nothing_explains_is_refused(tmp_path: Path) -> None:
    """The kernel of 20 us starts 60 us after its call has returned, with an idle GPU; the CPU waits for it."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(5):
        trace.step(number, at, at + 100).op("aten::work", at, at + 100)
        trace.launches("late", at + 65, at + 85, at=at + 1, until=at + 3)
        trace.runtime("cudaDeviceSynchronize", at + 10, at + 86, correlation=trace.new_correlation())
        at += 100
    trace.annotation("the end", at, at + 1)
    loaded = trace.load(tmp_path)
    late = loaded.sql("select event_id from event where name = 'late' order by event_id")["event_id"].to_list()
    with pytest.raises(ha.HotlineError, match="of a step are unexplained waits") as error:
        ha.whatif(loaded, ha.Scenario("mine", [ha.Scale("name = 'late'", 0.5)]))
    assert any(str(number) in error.value.message for number in late)
    # What is left: 1 us to the launch, the kernel's 20, 1 until the call returns, and 14 us of the CPU after it.
    with pytest.raises(ha.HotlineError, match=r"64\.0 % of a step"):
        ha.whatif(loaded)


def test_all_scenarios_have_numbers_or_a_reason(tmp_path: Path) -> None:
    table = ha.whatif(loading(30_000, 50_000).load(tmp_path))
    assert table["scenario"].is_unique().all()
    applies = table.filter(pl.col("reason").is_null())
    assert applies["scenario"].to_list() == ["loader"]
    assert applies.select(pl.col("low_ns") <= pl.col("predicted_ns"), pl.col("predicted_ns") <= pl.col("high_ns")).row(
        0
    ) == (True, True)
    others = table.filter(pl.col("reason").is_not_null())
    assert others["predicted_ns"].null_count() == others.height
    assert others.select(pl.col("reason").str.ends_with(".").all()).item()


def test_gradients_are_reduced_while_backward_goes_on(tmp_path: Path) -> None:
    """With two ranks, a bucket moves all its bytes.

    At 1 GB/s, that takes 20 us and 1,048.576 us for the first bucket, 20 and 0.004 for the second one.
    """
    loaded = with_gradients(tmp_path)
    gradients = loaded.sql("from gradient where step is not null order by start_ns")
    assert gradients["bytes"].to_list() == [1048576, 4] * 5
    assert loaded.sql("select distinct name from event where event_id in $ids", ids=gradients["ready_id"].to_list())[
        "name"
    ].sort().to_list() == ["grad0", "grad1"]
    found = ha.whatif(loaded, "ddp", ranks=2, gb_per_s=1)
    # From the end of the first kernel: both buckets, and the update; then the next step begins with 100 us.
    assert found.baseline_ns == 160 * US
    assert found.predicted_ns == pytest.approx((100 + 20 + 1048.576 + 20.004 + 10) * US, abs=1500)
    assert found.limit_after == "communication"
    fast = ha.whatif(loaded, "ddp", ranks=2, gb_per_s=1e6)
    # 20 us beside the second kernel, and 20 after it
    assert fast.predicted_ns == pytest.approx((160 + 20) * US, abs=1500)


def test_more_ranks_and_another_network(tmp_path: Path) -> None:
    """Step: 100 us, then both buckets one after the other, 20 us + 1,048.576 us · GB/s and 20 us, and 10 us."""
    trace = with_gradients(tmp_path)
    found = ha.data_parallel_scaling(trace, ranks=[2, 4], gb_per_s=[1, 2, 1000])
    two = found.filter(ranks=2)
    assert two["predicted_ns"].to_list() == pytest.approx([1198_576, 674_288, 180_000], abs=1500)
    assert two["efficiency_pct"].to_list() == pytest.approx(
        [100 * 160 / each for each in (1198.6, 674.3, 180)], abs=0.5
    )
    # The second bucket is ready when backward ends, so 20 us of it are never hidden.
    assert found["hidden_gb_per_s"].null_count() == found.height
    # Two ranks take 320 us for two steps of one: 170 us are left for the bytes. Four of them move 1.5 times as many.
    assert two["paying_gb_per_s"].unique().to_list() == pytest.approx([1048.576 / 170], rel=0.02)
    four = found.filter(ranks=4)
    assert four["paying_gb_per_s"].unique().to_list() == pytest.approx([1.5 * 1048.576 / 490], rel=0.02)
    # More bandwidth never makes a step longer, and more ranks never a shorter one.
    for _, rows in found.group_by("ranks"):
        assert rows.sort("gb_per_s")["predicted_ns"].is_sorted(descending=True)
    assert (four["predicted_ns"] >= two["predicted_ns"]).all()
    assert (found["low_ns"] <= found["predicted_ns"]).all()
    assert (found["predicted_ns"] <= found["high_ns"]).all()


def test_the_best_buckets(tmp_path: Path) -> None:
    """Two gradients of 1 MiB are ready 100 us after the step began, and 50 us later; the update takes 10 us.

    At 1,048.576 GB/s, two ranks need 1 us for each, and the latency for each bucket.
    """
    trace = with_gradients(tmp_path, sizes=(262144, 262144))

    def asked(latency_us: float) -> dict[float | None, tuple[int, float]]:
        found = ha.bucket_sizes(trace, ranks=2, gb_per_s=1048.576, latency_us=latency_us)
        assert found["predicted_ns"].is_sorted()
        rows = found.select("bucket_mb", "bucket_count", pl.col("predicted_ns") / US).rows()
        return {size: (count, us) for size, count, us in rows}

    # The second bucket begins when it is ready, at 150 us.
    small = asked(20)
    assert {size: count for size, (count, _) in small.items()} == {None: 2, 1: 2, 2: 1}
    assert small[1][1] == small[None][1] == pytest.approx(150 + 21 + 10, abs=1.5)
    assert small[2][1] == pytest.approx(150 + 22 + 10, abs=1.5)
    # It begins when the first one is done, at 100 + 101 us.
    large = asked(100)
    assert large[1][1] == pytest.approx(100 + 2 * 101 + 10, abs=1.5)
    assert large[2][1] == pytest.approx(150 + 102 + 10, abs=1.5)
    assert next(iter(large)) == 2
    assert next(iter(small)) is None
    with pytest.raises(ha.QueryParameterError, match="mb must be numbers over 0"):
        ha.bucket_sizes(trace, mb=[0])


def test_on_a_cpu_the_thread_waits_at_the_end_of_backward(tmp_path: Path) -> None:
    """Gradients of 4,000 bytes are accumulated 40 and 60 us after the step began, of 100 us.

    At 1 GB/s, two ranks are done with one bucket of both 50 + 8 us after the second gradient. With two, and 10 us for
    each, they are done with the first at 40 + 14 us, and with the second at 60 + 14. Then 40 us are left of the step.
    """
    trace = TraceBuilder(rank=0)
    for at in range(0, 500, 100):
        trace.step(at // 100, at, at + 100).op("aten::linear", at, at + 20)
        trace.annotation("## backward ##", at + 25, at + 70)
        for place in (0, 1):
            begin = at + 30 + 20 * place
            args = {"Input Dims": [[1000]], "Input type": ["float"]}
            trace.complete("cpu_op", "torch::autograd::AccumulateGrad", begin, begin + 10, args)
        trace.op("aten::add_", at + 80, at + 95)
    loaded = trace.annotation("the end", 500, 501).load(tmp_path)
    one = ha.whatif(loaded, "ddp", ranks=2, gb_per_s=1, latency_us=50, copy_gb_per_s=1e6)
    assert one.baseline_ns == 100 * US
    assert one.predicted_ns == pytest.approx((60 + 58 + 40) * US, abs=20)
    two = ha.whatif(loaded, "ddp", ranks=2, gb_per_s=1, latency_us=10, bucket_mb=0.001, copy_gb_per_s=1e6)
    assert two.predicted_ns == pytest.approx((60 + 14 + 40) * US, abs=20)
    free: dict[str, Any] = {"ranks": 2, "gb_per_s": 1e6, "latency_us": 0.0}
    assert ha.whatif(loaded, "ddp", **free, copy_gb_per_s=1e6).predicted_ns == pytest.approx(100 * US, abs=20)
    # 8,000 bytes are copied to the bucket, and back
    assert ha.whatif(loaded, "ddp", **free, copy_gb_per_s=1).predicted_ns == pytest.approx(116 * US, abs=20)
    # The first bucket is copied at 40 us and sent at 44, the second copied at 64 and sent at 68. The first one is there
    # at 54, and copied back when backward is over, the second one at 78, and copied back until 82.
    slow = ha.whatif(loaded, "ddp", ranks=2, gb_per_s=1, latency_us=6, bucket_mb=0.001, copy_gb_per_s=1)
    assert slow.predicted_ns == pytest.approx((82 + 40) * US, abs=20)


def test_a_network_that_hides_all(tmp_path: Path) -> None:
    """The CPU takes 400 us for a step, of which the GPU is idle for 235: time for 20 + 1,048.576 / x + 20 us."""
    trace = with_gradients(tmp_path, step_us=400)
    [hidden] = ha.data_parallel_scaling(trace, ranks=[2], gb_per_s=[10])["hidden_gb_per_s"].to_list()
    found = ha.data_parallel_scaling(trace, ranks=[2], gb_per_s=[hidden, hidden / 1.03])["predicted_ns"]
    assert found[0] <= 1.01 * 400 * US < found[1]


def test_scaling_that_cannot_be_told(tmp_path: Path) -> None:
    trace = loop(30, 100).load(tmp_path)
    with pytest.raises(ha.HotlineError, match="more ranks cannot be predicted: the trace does not show when gradients"):
        ha.data_parallel_scaling(trace)
    with pytest.raises(ha.QueryParameterError, match="whole numbers from 2 on"):
        ha.data_parallel_scaling(trace, ranks=[1])
    with pytest.raises(ha.QueryParameterError, match="numbers over 0"):
        ha.data_parallel_scaling(trace, gb_per_s=[0])


def test_the_timeline_is_where_the_replay_puts_events(tmp_path: Path) -> None:
    """Kernels of 40 and 60 us back to back: the second one starts 20 us after the first if this is half as long."""
    trace = two_kernels(20, 40, 60).load(tmp_path)
    found = changed(trace, ha.Scale("name = 'k0'", 0.5))
    events = found.timeline().filter(pl.col("category") == "kernel").sort("start_ns")
    lengths = (events["end_ns"] - events["start_ns"]).to_list()
    assert lengths == [20 * US, 60 * US] * 4
    starts = events["start_ns"].to_list()
    assert [b - a for a, b in pairwise(starts)] == ([20 * US, 60 * US] * 4)[:7]
    written = found.save(tmp_path / "after.json")
    with ha.load(written) as again:
        assert again.sql("select count(*) from event where category = 'kernel'").item() == 8
    with pytest.raises(ha.ExportExistsError):
        found.save(tmp_path / "after.json")


def test_what_is_kept_of_a_trace_goes_with_it(tmp_path: Path) -> None:
    """A prediction keeps the loop for the next one, which refers to the trace: neither outlives it, closed or not."""
    trace = loop(20, 100).load(tmp_path)
    found = loop_of(trace)
    assert loop_of(trace) is found
    gone, kept = weakref.ref(trace), weakref.ref(found)
    del trace, found
    gc.collect()
    assert gone() is None
    assert kept() is None
    with loop(20, 100).load(tmp_path) as trace:
        ha.report(trace)
        assert trace.memo
    assert not trace.memo
