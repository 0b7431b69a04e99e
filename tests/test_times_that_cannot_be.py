"""Times that no recording has: what is cut, moved or left out, against plain loops over the events.

The queries are `unlikely_time`, `launch_order`, `stream_overlap` and `surplus_device`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.limits import step_loop
from tests.intervals import union
from tests.odd_values import load
from tests.wrong_times import Event, Loop, given, spans_of

DAY_US = 86_400 * 10**6


def damage(trace: Trace) -> str:
    text = trace.sql("select damage from rank_info").item()
    return "" if text is None else str(text)


def in_ns(events: list[Event]) -> list[tuple[int, int]]:
    return sorted((int(1000 * event["ts"]), int(1000 * event["dur"])) for event in events)


def busy_ns(trace: Trace) -> int:
    return int(trace.sql("select sum(end_ns - start_ns)::bigint as ns from gpu_busy").item())


# --- work that runs over the next work of its stream ------------------------------------------------------------------


def cut_at_next_start(events: list[Event]) -> list[tuple[int, int]]:
    """Work of each stream, cut where the next one starts, in nanoseconds."""
    streams = defaultdict(list)
    for event in events:
        streams[event["tid"]].append((int(1000 * event["ts"]), int(1000 * event["dur"])))
    found = []
    for works in streams.values():
        works.sort()
        for (start, dur), (following, _) in zip(works, [*works[1:], (2**62, 0)], strict=True):
            found.append((start, min(dur, following - start)))
    return sorted(found)


def test_a_kernel_that_runs_over_the_others_is_cut(tmp_path: Path) -> None:
    """3 steps of 19 launches, 1 ms apart; each kernel takes 0.9 ms, and one says 1.6 s: 56 × 0.9 + 1.0 = 51.4 ms."""
    loop = Loop(3, 19, 1000, 900, 50, call="hipLaunchKernel")
    loop.kernels[2]["dur"] = 1_600_000
    loop.kernels[2]["name"] = "fmha_bwd"
    trace = loop.load(tmp_path)
    assert (busy_ns(trace), given(trace)) == (51_400_000, {"overlap": 1})
    slowest = dict(ha.slowest_kernels(trace).select("name", "gpu_time_ns").rows())
    assert slowest == {"gemm": 50_400_000, "fmha_bwd": 1_000_000}
    assert ha.steps(trace)["dur_ns"].to_list() == [1000 * loop.length] * 3
    assert "(GPU time 51.4 ms instead of 1.65 s)" in ha.report(trace).facts["damage"]
    assert "1 kernel or copy" in damage(trace)


@pytest.mark.parametrize("seed", range(8))
def test_each_stream_runs_its_work_in_order(seed: int, tmp_path: Path) -> None:
    """Any number of kernels on any streams run over others, by parts of a kernel, over many, or past the end."""
    rng = random.Random(seed)
    streams = tuple(range(20, 20 + rng.choice([1, 2, 3])))
    loop = Loop(rng.randint(1, 4), rng.randint(4, 30), rng.randint(80, 3000), 60, rng.randint(12, 40), streams=streams)
    victims = rng.sample(loop.kernels[: -len(streams)], rng.choice([1, 2, len(loop.kernels) // 3]))
    pitch = loop.spacing * len(streams)
    for event in victims:
        event["dur"] = rng.choice([pitch + 40, 7 * pitch, 10**6, 10**9])
        event["name"] = rng.choice(["gemm", "softmax", "nccl:all_reduce"])
    expected = cut_at_next_start(loop.kernels)
    changed = sum(dur < 1000 * event["dur"] for (_, dur), event in zip(expected, sorted_events(loop), strict=True))
    trace = loop.load(tmp_path, shuffled=seed)
    assert spans_of(trace) == expected
    assert busy_ns(trace) == union([(start, start + dur) for start, dur in expected])
    assert given(trace) == {"overlap": changed}
    assert ha.coverage(trace)["gpu_time_ns"].sum() == sum(dur for _, dur in expected)
    longest = max(ha.steps(trace)["dur_ns"])
    assert longest == 1000 * loop.length


def sorted_events(loop: Loop) -> list[Event]:
    return sorted(loop.kernels, key=lambda event: event["ts"])


@pytest.mark.parametrize("by_us", [1, 4, 9])
def test_times_of_a_stream_may_overlap_by_what_clocks_are_off(by_us: int, tmp_path: Path) -> None:
    loop = Loop(2, 6, 100, 100 + by_us, 12)
    expected = in_ns(loop.kernels)
    trace = loop.load(tmp_path)
    assert (spans_of(trace), given(trace), damage(trace)) == (expected, {}, "")


def test_kernels_of_one_graph_launch_run_side_by_side(tmp_path: Path) -> None:
    """They have one correlation; the next launch of the stream ends what they can take."""
    loop = Loop(1, 3, 1000, 500, 12)
    for number in range(4):
        first = loop.kernels[0]
        start = first["ts"] + 20 * number
        loop.builder.kernel("branch", start, start + 700 - 100 * number, correlation=first["args"]["correlation"])
    expected = in_ns([event for event in loop.builder.events if event["cat"] == "kernel"])
    trace = loop.load(tmp_path)
    assert (spans_of(trace), given(trace)) == (expected, {})


def test_a_branch_of_a_graph_is_cut_where_the_next_launch_starts(tmp_path: Path) -> None:
    loop = Loop(1, 3, 1000, 500, 12)
    first = loop.kernels[0]
    loop.builder.kernel("branch", first["ts"] + 20, first["ts"] + 9000, correlation=first["args"]["correlation"])
    trace = loop.load(tmp_path)
    assert spans_of(trace)[1] == (1000 * int(first["ts"] + 20), 980_000)
    assert given(trace) == {"overlap": 1}


def test_a_dependent_launch_starts_early_and_ends_later(tmp_path: Path) -> None:
    """With programmatic dependent launch, 60 us of each kernel overlap the next; what contains the next is cut."""
    loop = Loop(2, 6, 100, 160, 12, call="cuLaunchKernelEx")
    loop.kernels[-1]["dur"] = 100
    expected = in_ns(loop.kernels)
    trace = loop.load(tmp_path)
    assert (spans_of(trace), given(trace)) == (expected, {})
    loop.kernels[3]["dur"] = 450
    (tmp_path / "cut").mkdir()
    again = loop.load(tmp_path / "cut")
    expected[3] = (expected[3][0], 100_000)
    assert (spans_of(again), given(again)) == (expected, {"overlap": 1})


# --- ts = dur = 0 -----------------------------------------------------------------------------------------------------


def test_good_events_count_however_few_they_are(tmp_path: Path) -> None:
    """5 steps of 10 launches, of which 3 steps have ts = dur = 0: 2 steps, and 20 kernels of 0.7 ms."""
    loop = Loop(5, 10, 1000, 700, 10)
    zeroed(loop, [2, 3, 4])
    trace = loop.load(tmp_path)
    assert ha.steps(trace)["dur_ns"].to_list() == [1000 * loop.length] * 2
    assert (ha.coverage(trace)["gpu_time_ns"].sum(), ha.coverage(trace)["event_count"].sum()) == (14_000_000, 20)
    assert damage(trace) == "results exclude 93 events with ts = dur = 0, 30 of them GPU work"
    assert given(trace) == {"zero_time": 93}


def zeroed(loop: Loop, steps: list[int]) -> int:
    """Take the times of all events of some steps; return how many."""
    marks = [event for event in loop.builder.events if event["name"].startswith("ProfilerStep#")]
    bounds = [(marks[number]["ts"], marks[number]["ts"] + marks[number]["dur"]) for number in steps]
    lost = 0
    for event in loop.builder.events:
        if any(start <= event["ts"] < end for start, end in bounds):
            event["ts"] = event["dur"] = 0
            lost += 1
    return lost


@pytest.mark.parametrize("seed", range(6))
def test_zeros_never_win_by_their_number(seed: int, tmp_path: Path) -> None:
    """Between one step and all but one lose their times, at today's epoch or in a recording that starts at 5 s."""
    rng = random.Random(100 + seed)
    base = rng.choice([5_000_000, 1_700_000_000_000_000])
    loop = Loop(rng.randint(3, 12), rng.randint(1, 12), rng.randint(60, 900), rng.randint(1, 59), 10, base=base)
    steps = rng.sample(range(loop.steps), rng.choice([1, loop.steps // 2, loop.steps - 1]))
    lost = zeroed(loop, steps)
    expected = in_ns([event for event in loop.kernels if event["dur"]])
    trace = loop.load(tmp_path, shuffled=seed)
    assert spans_of(trace) == expected
    assert given(trace) == {"zero_time": lost}
    assert len(ha.steps(trace)) == loop.steps - len(steps)
    assert busy_ns(trace) == union([(start, start + dur) for start, dur in expected])


# --- most events at another time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one time", "every time", "years ago", "kernels"])
@pytest.mark.parametrize("seed", range(2))
def test_a_majority_of_bad_times_does_not_outvote_a_recording(kind: str, seed: int, tmp_path: Path) -> None:
    """Of 10 steps, 6 to 9 have times that are days off: all the same, at random over years, or of kernels only."""
    rng = random.Random(f"{kind} {seed}")
    loop = Loop(10, rng.randint(3, 9), rng.randint(100, 900), 60, 15, base=1_700_000_000_000_000)
    bad = rng.randint(6, 9)
    first_good = loop.base + bad * (loop.length + 100)
    lost = 0
    for event in loop.builder.events:
        if event["ts"] >= first_good or (kind == "kernels" and event["cat"] != "kernel"):
            continue
        lost += 1
        if kind == "one time":
            event["ts"], event["dur"] = 77, 3
        elif kind == "every time":
            event["ts"] = rng.randrange(10**15)
        elif kind == "years ago":
            event["ts"] = rng.choice([10**12, 5 * 10**12, 3 * 10**13])
        else:
            event["ts"] += 20 * DAY_US
    expected = in_ns([event for event in loop.kernels if first_good <= event["ts"] < first_good + DAY_US])
    trace = loop.load(tmp_path, shuffled=seed)
    assert spans_of(trace) == expected
    assert given(trace) == {"far_time": lost}
    if kind != "kernels":
        assert ha.steps(trace)["dur_ns"].to_list() == [1000 * loop.length] * (10 - bad)


# --- work that starts before its own launch ---------------------------------------------------------------------------


def test_work_before_its_launch_is_left_out(tmp_path: Path) -> None:
    """3 steps of 10 launches; 6 kernels of 0.7 ms start 9 s early: 24 × 0.7 = 16.8 ms within some 32 ms."""
    loop = Loop(3, 10, 1000, 700, 10)
    for event in loop.kernels[:6]:
        event["ts"] -= 9_000_000
    trace = loop.load(tmp_path)
    assert busy_ns(trace) == 16_800_000
    window = trace.sql("select max(end_ns) - min(start_ns) as ns from annotated_event").item()
    assert 30_000_000 < window < 33_000_000
    assert damage(trace) == "results exclude 6 events starting before the launch, 6 of them GPU work"
    assert given(trace) == {"before_launch": 6}


@pytest.mark.parametrize("seed", range(6))
def test_launches_before_work_however_few_they_are(seed: int, tmp_path: Path) -> None:
    """From one up to all but one of the works start 2 ms to a day before their launches."""
    rng = random.Random(200 + seed)
    loop = Loop(rng.randint(1, 5), rng.randint(4, 20), rng.randint(90, 700), 80, rng.randint(3, 40))
    bad = rng.sample(loop.kernels, rng.choice([1, 3, len(loop.kernels) - 1]))
    early = rng.choice([None, 2_000, 10**6])
    for event in bad:
        launch = loop.calls_of[event["args"]["correlation"]]
        event["ts"] = launch["ts"] - (early or rng.randint(2_000, DAY_US))
    expected = in_ns([event for event in loop.kernels if all(event is not other for other in bad)])
    trace = loop.load(tmp_path, shuffled=seed)
    assert spans_of(trace) == expected
    assert given(trace) == {"before_launch": len(bad)}


@pytest.mark.parametrize("off_us", [-40 * DAY_US, -(10**7), -5_000, 10**10, 40 * DAY_US])
@pytest.mark.parametrize("lag", [0, 7, 300])
@pytest.mark.sampled
def test_a_clock_that_differs_for_all_is_moved(off_us: int, lag: int, tmp_path: Path) -> None:
    """The work keeps its durations and distances; the first one after its launch starts with it."""
    loop = Loop(3, 8, 500, 200, lag, base=1_700_000_000_000_000)
    loop.kernels[5]["ts"] += 9
    truth = in_ns(loop.kernels)
    for event in loop.kernels:
        event["ts"] += off_us
    trace = loop.load(tmp_path)
    assert spans_of(trace) == [(start - 1000 * lag, dur) for start, dur in truth]
    assert given(trace) == {"other_clock": len(truth)}
    assert "the GPU clock is" in damage(trace)
    loop_found = step_loop(trace)
    assert loop_found is not None
    assert loop_found.mean_ns == pytest.approx(1000 * (loop.length + 100), rel=0.05)


def test_clocks_may_be_a_little_off(tmp_path: Path) -> None:
    """A fifth of the work starts up to 0.9 ms before its launch: that is how clocks are compared, and no damage."""
    loop = Loop(2, 10, 2000, 200, 15)
    for number, event in enumerate(loop.kernels):
        event["ts"] -= 900 if number % 5 == 0 else 0
    expected = in_ns(loop.kernels)
    trace = loop.load(tmp_path)
    assert (spans_of(trace), given(trace), damage(trace)) == (expected, {}, "")


# --- ends before starts, and several kinds in one file ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_each_kind_is_counted(seed: int, tmp_path: Path) -> None:
    """Works that end before they start, have zeros, start too early, or run over the next one, in one file."""
    rng = random.Random(300 + seed)
    loop = Loop(4, 15, 400, 150, 20)
    chosen = rng.sample(loop.kernels[:-1], 12)
    # A work that runs over another needs a good one behind it, or it is cut at the next one that is.
    counts = {"ends_first": 3, "zero_time": 4, "before_launch": 2, "overlap": 3}
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    for kind, event in zip(kinds, chosen, strict=True):
        if kind == "ends_first":
            event["dur"] = -rng.randint(1, 10**6)
        elif kind == "zero_time":
            event["ts"] = event["dur"] = 0
        elif kind == "before_launch":
            event["ts"] -= 10**7
        else:
            event["dur"] = 10**5
    good = [event for event in loop.kernels if event["dur"] > 0 and event["ts"] > loop.base]
    trace = loop.load(tmp_path, shuffled=seed)
    assert spans_of(trace) == cut_at_next_start(good)
    assert given(trace) == counts
    text = damage(trace)
    assert text.startswith("results exclude 9 events (4 with ts = dur = 0, 2 starting before the launch and 3")
    assert "3 kernels or copies overlap the next work" in text


def test_the_file_is_kept_as_it_was(tmp_path: Path) -> None:
    """`event_args` has the durations of the file, and an export for viewers those that were taken away."""
    loop = Loop(1, 4, 1000, 500, 10)
    loop.kernels[0]["dur"] = 10**6
    loop.kernels[2]["ts"] -= 10**7
    trace = loop.load(tmp_path)
    rows = trace.sql(
        "select json_extract_string(fields, '$.time_rule') as rule, json_extract(fields, '$.dur')::double as us"
        " from event_args where contains(fields, 'time_rule') order by rule"
    ).rows()
    assert rows == [("before_launch", 500.0), ("overlap", 10.0**6)]
    again = load(ha.export_perfetto(trace, tmp_path / "again.json", annotate=False))
    with again:
        assert sorted(dur for _, dur in spans_of(again)) == sorted(dur for _, dur in spans_of(trace))


# --- clean files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_clean_files_keep_all_times(seed: int, tmp_path: Path) -> None:
    rng = random.Random(400 + seed)
    base = rng.choice([0, 10**9, 1_700_000_000_000_000])
    loop = Loop(3, 12, rng.randint(100, 900), 90, rng.randint(1, 5000), base=base, streams=(7, 13))
    expected = in_ns(loop.kernels)
    trace = loop.load(tmp_path, shuffled=seed)
    assert (spans_of(trace), given(trace), damage(trace)) == (expected, {}, "")


# --- devices that a process has no room for ---------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "heavy"), [(64, 3), (65, 3), (100, 40), (300, 1)])
def test_a_process_has_no_more_devices_than_fit(count: int, heavy: int, tmp_path: Path) -> None:
    """The 64 devices with most work keep their numbers; the rest is one device without. All of the work counts."""
    builder = Loop(1, 1, 100, 10, 12).builder
    builder.events.pop()  # the mark of the step ends with the ops that follow
    expected: dict[int, int] = defaultdict(int)
    for number in range(count):
        dur = 70 if number < heavy else 20
        builder.op("aten::mm", 6_744_669_506_000 + 100 * number, 6_744_669_506_050 + 100 * number)
        at = 6_744_669_506_020 + 100 * number
        builder.launches("gemm", at, at + dur, device=number + 1)
        expected[number + 1] = 1000 * dur
    ordered = sorted(expected, key=lambda device: (-expected[device], device))
    for kernel in [event for event in builder.events if event["cat"] == "kernel"][:1]:
        kernel["args"]["device"] = ordered[0]
        expected[ordered[0]] += int(1000 * kernel["dur"])
    for device in ordered[64:]:
        expected[-1] += expected.pop(device)
    trace = load(builder.write(tmp_path / "trace.json"))
    found = trace.sql(
        "select device_of(device) as device, sum(dur_ns)::bigint as ns from gpu_event group by device"
    ).rows()
    assert dict(found) == dict(expected)
    assert (f"GPU work names {count} devices" in damage(trace)) == (count > 64)
    kept = trace.sql("select count(*) from event_args where json_extract(fields, '$.device')::bigint > 0").item()
    assert kept == max(0, count - 64)


# --- durations beyond all numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dur", "caveats"),
    [("Infinity", {}), ("NaN", {}), ("1e300", {}), ("-Infinity", {"ends_first": 1}), ("-1e300", {"ends_first": 1})],
)
def test_a_duration_that_is_no_time_of_a_clock(tmp_path: Path, dur: str, caveats: dict[str, int]) -> None:
    """Nobody knows how long the event took: the other 56 are 0.9 ms each."""
    loop = Loop(3, 19, 1000, 900, 50)
    loop.kernels[2]["dur"] = "the duration"
    file = loop.builder.write(tmp_path / "trace.json")
    file.write_text(file.read_text().replace('"the duration"', dur))
    trace = load(file)
    assert (busy_ns(trace), given(trace)) == (56 * 900_000, caveats)
    assert "results exclude 1 event" in damage(trace)
