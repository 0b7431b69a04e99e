"""Whether a trace shows a training run. Some traces show graph capture, compilation, or only unknown tracks."""

from __future__ import annotations

import weakref

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent, safe
from hotline_analysis.vocabulary import RECORDER_KEY

# Minimum share of a trace for the verdict "not a run".
_MOST_PCT = 50.0
# Minimum share of time for unknown tracks to affect the verdict on a step's limit.
_UNKNOWN_PCT = 5.0
_NAMED = 3  # maximum number of tracks named in a sentence

_SAID = {
    "graph_capture": "This trace records the capture of a CUDA graph, not a run: {count:,} launches were recorded into"
    " a graph, and none of them ran. Profile steps that replay the graph.",
    "compilation": "This trace is about compilation, not training: torch.compile takes {time} ({share} of it). Profile"
    " later steps.",
    "first_calls": "This trace is about first launches, not training: {count:,} calls that set up the GPU or load code"
    " when it is first used take {time} ({share} of it). Profile later steps.",
    "lost_work": "Most of the GPU's work is not in the file: {count:,} launch calls ({share}) have none. Capture again,"
    " with fewer steps, and let the last one finish before the profiler stops.",
    "lost_launches": "The file is cut off or damaged: most of the GPU's work and its launches are not in it ({count:,}"
    " calls of ops, {share}, have none although the same calls in other steps have). Copy or capture it again.",
}


_OF_START_UP = {"compilation", "first_calls"}
"""Caveats on work that only the first steps do."""
_SEVERAL = 2  # counted steps that show the length of a usual step
_NOTHING = (
    "The file has no op, call or region of the program, only the profiler's own mark. Usual causes: the program"
    " computes on another thread than the thread that starts the profiler; or a schedule began its next cycle before"
    " the file was written (write the file in on_trace_ready)."
)
"""For a file of PyTorch's profiler that is empty. See `schedule` and `on_trace_ready` of torch/profiler/profiler.py."""


# Caches by trace and rank, because several answers of a report ask the same questions.
_no_run: weakref.WeakKeyDictionary[Trace, dict[int, str]] = weakref.WeakKeyDictionary()
_unknown_tracks: weakref.WeakKeyDictionary[Trace, dict[int, pl.DataFrame]] = weakref.WeakKeyDictionary()
_missing_gpu_work: weakref.WeakKeyDictionary[Trace, dict[int, tuple[str, str]]] = weakref.WeakKeyDictionary()


def no_run(trace: Trace, rank: int) -> str:
    """Explain why a rank's trace does not show training, and how to record it; empty if the trace shows training.

    See the query `caveats` for the conditions.
    """
    cache = _no_run.setdefault(trace, {})
    if rank not in cache:
        cache[rank] = _said_of_no_run(trace, rank)
    return cache[rank]


def unknown_tracks(trace: Trace, rank: int) -> pl.DataFrame:
    """The cached frame of the answer `unknown_tracks` for a rank."""
    cache = _unknown_tracks.setdefault(trace, {})
    if rank not in cache:
        cache[rank] = trace.query("unknown_tracks", rank=rank)
    return cache[rank]


def is_unknown_alone(trace: Trace, rank: int) -> bool:
    """Whether a rank's file has timed events, all of unknown kinds."""
    tracks = unknown_tracks(trace, rank)
    if tracks.is_empty():
        return False
    spans = trace.of(rank).sql("select count(*) as spans from cpu_event where rank = $rank", rank=rank)["spans"][0]
    on_threads = int(tracks.filter(kind="thread")["event_count"].sum())
    return bool(spans == on_threads) and not has_gpu_work(trace, rank=rank)


def unknown_words(tracks: pl.DataFrame) -> str:
    """Unknown tracks as text: ``device tracks `/device:GPU:0`, 4.25 ms in 5 events``."""
    word = {"device": "device tracks", "async": "asynchronous events of", "thread": "tracks"}
    phrases = []
    for (kind,), rows in tracks.group_by("kind", maintain_order=True):
        # Name only the process unless threads have names.
        names = rows["track"].str.replace(r" / thread \S+$", "").unique(maintain_order=True).to_list()
        labels = [f"`{safe(name)}`" for name in names[:_NAMED]]
        remainder = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
        count = int(rows["event_count"].sum())
        time = duration(int(rows["busy_ns"].sum()))
        events = f"{count:,} event{'s' if count != 1 else ''}"
        categories = [f"`{safe(name)}`" for name in rows["category"].drop_nulls().unique(maintain_order=True)[:_NAMED]]
        category_text = f" of category {listed(categories)}" if categories else ""
        phrases.append(f"{word[str(kind)]} {listed([*labels, *remainder])}, {time} in {events}{category_text}")
    return "; ".join(phrases)


def without_gpu_work(trace: Trace, rank: int) -> str:
    """The device of a file without GPU work, as text: `CPU only`, unless the file hints at more devices."""
    devices = unknown_tracks(trace, rank).filter(kind="device")
    if not devices.is_empty():
        return f"{unknown_words(devices)}: this kind is not known"
    if is_unknown_alone(trace, rank):
        return "not known"
    return "no GPU work was read" if lacks_gpu_work(trace, rank) else "CPU only"


def _said_of_unknown(trace: Trace, rank: int) -> str:
    """A sentence about unknown tracks, if the file has no other tracks or the tracks belong to working devices."""
    tracks = unknown_tracks(trace, rank)
    if tracks.is_empty():
        return ""
    if is_unknown_alone(trace, rank):
        return (
            f"The file has only events of kinds that are not known: {unknown_words(tracks)}. This report lists them"
            " with their times and gives no verdict."
        )
    devices = tracks.filter(kind="device")
    window = trace.of(rank).sql("select end_ns - start_ns as window_ns from rank_info where rank = $rank", rank=rank)
    share = 100 * int(devices["busy_ns"].max() or 0) / max(1, window["window_ns"][0] or 0)  # type: ignore[arg-type]
    if devices.is_empty() or (has_gpu_work(trace, rank=rank) and share < _UNKNOWN_PCT):
        return ""
    return (
        f"The file has tracks that are not understood: {unknown_words(devices)}. No figure includes their work, so this"
        " report gives no verdict."
    )


def _said_of_no_run(trace: Trace, rank: int) -> str:
    if reason := _said_of_unknown(trace, rank):
        return reason
    if records_only_profiler(trace, rank):
        return _NOTHING
    caveats = trace.query("caveats", rank=rank).sort("share_pct", "caveat", descending=[True, False], nulls_last=True)
    worst = next((row for row in caveats.iter_rows(named=True) if row["caveat"] in _SAID), None)
    if worst is None or worst["share_pct"] is None or worst["share_pct"] < _MOST_PCT:
        return ""
    text = _SAID[worst["caveat"]].format(
        count=worst["count"], share=percent(worst["share_pct"]), time=duration(worst["time_ns"])
    )
    return f"{text}{_only_later_steps(trace, rank)}" if worst["caveat"] in _OF_START_UP else text


def _only_later_steps(trace: Trace, rank: int) -> str:
    """How to leave the start-up work out, if the file has usual steps after it; else empty.

    Shares of the whole recording, such as the slowest op and the idle GPU, would be about the start-up work.
    """
    frame = trace.of(rank).sql(
        """
        select
            count(*) as step_count,
            sum(length_ns)::bigint as length_ns,
            sum(start_up_ns)::bigint as start_up_ns
        from step_length
        where rank = $rank and kind is not null
        """,
        rank=rank,
    )
    count, length_ns, start_up_ns = frame.row(0)
    if count < _SEVERAL or 100 * start_up_ns >= _MOST_PCT * length_ns:
        return ""
    return (
        f" The {count:,} steps after it take {duration(length_ns // count)} each on average; to see what limits them,"
        " leave the first step out: schedule(wait=1, warmup=1, active=3)."
    )


def records_only_profiler(trace: Trace, rank: int) -> bool:
    """Whether the only timed event of a rank's file is the profiler's own span over the recording."""
    frame = trace.of(rank).sql(
        """
        select coalesce(bool_and(category = 'trace'), false) as found
        from event
        where rank = $rank and end_ns > start_ns
        """,
        rank=rank,
    )
    return bool(frame["found"][0])


def lacks_gpu_work(trace: Trace, rank: int) -> bool:
    """Whether a trace lacks the GPU work of a rank with GPU calls, or of a rank whose file is damaged."""
    return bool(missing_gpu_work(trace, rank)[0])


def missing_gpu_work(trace: Trace, rank: int) -> tuple[str, str]:
    """Why expected GPU work is missing from a file, and the remedy: a sentence each.

    The first sentence is empty if the file does not hint at GPU work, the second if there is no remedy.
    """
    cache = _missing_gpu_work.setdefault(trace, {})
    if rank not in cache:
        cache[rank] = _why_no_gpu_work(trace, rank)
    return cache[rank]


def how_to_record_gpu_work(trace: Trace, rank: int | None = None) -> str:
    """The remedy for a trace without GPU work, if a question needs GPU work."""
    chosen_rank = min(trace.ranks) if rank is None else rank
    return missing_gpu_work(trace, chosen_rank)[1] or "If the program uses a GPU, record it with ProfilerActivity.CUDA."


def _why_no_gpu_work(trace: Trace, rank: int) -> tuple[str, str]:
    frame = trace.of(rank).sql(
        """
        select
            damage is not null as is_damaged,
            exists (select 1 from device where rank = $rank) or exists (
                select 1 from memory_event where rank = $rank and device_type = 1
            ) as has_device,
            call.call_count,
            call.launch_count,
            call.has_sync,
            op.device
        from rank_info
        cross join (
            select
                count(*) filter (where category in ('cuda_runtime', 'cuda_driver')) as call_count,
                count(*) filter (
                    where category in ('cuda_runtime', 'cuda_driver')
                    and (is_kernel_launch(name) or is_graph_launch(name))
                ) as launch_count,
                coalesce(bool_or(starts_with(category, 'cuda')), false) as has_sync
            from event
            where rank = $rank and starts_with(category, 'cuda')
        ) as call
        cross join (
            select any_value(unrecorded_device(name)) as device from name_info
            where rank = $rank and category = 'cpu_op'
        ) as op
        where rank = $rank and not exists (select 1 from gpu_op where gpu_op.rank = $rank)
        """,
        rank=rank,
    )
    row = next(frame.iter_rows(named=True), None)
    if row is None:
        return "", ""
    finish = (
        "Let the GPU finish (torch.cuda.synchronize()) before the profiler stops, record fewer steps, and see that the"
        " profiler is allowed to read the GPU's counters."
    )
    if row["launch_count"]:
        count = row["launch_count"]
        calls = f"{count:,} launch call{'s are' if count != 1 else ' is'}"
        return f"{calls} in the file, but no kernel arrived in it.", finish
    if row["call_count"] or row["has_sync"]:
        return "Runtime calls of a GPU are in the file, but none of its work arrived in it.", finish
    if row["is_damaged"]:
        return "The file is cut off or damaged, and its rest has no GPU work.", "Copy or capture it again."
    if row["device"] == "MPS":
        return (
            "Ops run on Apple's GPU (MPS), whose work PyTorch's profiler does not record.",
            "Record the GPU with torch.mps.profiler and Instruments.",
        )
    if row["device"]:
        return (
            f"Ops run on a device ({row['device']}), and none of its work is in the file.",
            "Record it with the profiler of that device.",
        )
    if row["has_device"]:
        return "", "The file lists a GPU, but no call to it: if the program uses it, add ProfilerActivity.CUDA."
    return "", ""


def is_of_xla(trace: Trace, rank: int) -> bool:
    """Whether a rank's file comes from JAX or TensorFlow, where advice on PyTorch's profiler options does not apply."""
    frame = trace.of(rank).sql(
        "select exists (select 1 from track where rank = $rank and is_plane_of_xla(process_name)) as found", rank=rank
    )
    return bool(frame["found"][0])


def is_of_nsight(trace: Trace, rank: int) -> bool:
    """Whether Nsight Systems recorded a rank: the options of PyTorch's profiler do not apply."""
    frame = trace.of(rank).sql(
        "select json_extract(metadata, $key) is not null as found from rank_info where rank = $rank",
        key=f"$.{RECORDER_KEY}",
        rank=rank,
    )
    return bool(frame["found"].any())


def has_gpu_work(trace: Trace, *, rank: int | None = None) -> bool:
    """Whether the trace has a kernel, copy or memset that takes time."""
    frame = trace.of(rank).sql(
        "select exists (select 1 from gpu_busy where $rank is null or rank = $rank) as found", rank=rank
    )
    return bool(frame["found"][0])
