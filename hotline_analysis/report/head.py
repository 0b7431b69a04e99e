"""The head of the report: facts of the run, one sentence on what limits it, and its slowest op."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.analyze import Finding, breakdown
from hotline_analysis.humane import duration, lost_events, percent, safe
from hotline_analysis.report.given import given
from hotline_analysis.report.recapture import INFERRED
from hotline_analysis.report.tables import ROWS
from hotline_analysis.trace import Trace

_TIE = 0.9  # a phase that takes so much of the longest's time is named, too
_INCOMPLETE = " Events are missing from the file, so figures and answers may be wrong."


def facts(trace: Trace, info: dict[str, Any], steps: pl.DataFrame, has_gpu: bool) -> dict[str, str]:
    """What the run is: device, ranks, steps, events, flags of the profiler, damage; by name, in order."""
    rank = info["rank"]
    used = trace.sql(
        "select distinct gpu_op.device, device.name from gpu_op"
        " left join device on gpu_op.rank = device.rank and gpu_op.device = device.device_id"
        " where gpu_op.rank = $rank order by all",
        rank=rank,
    )
    devices = [
        (safe(name) if name else "GPU") + (f" (device {number})" if number is not None else "")
        for number, name in used.rows()
    ]
    ranks = ", ".join(str(number) for number in trace.ranks[:8]) + (", …" if len(trace.ranks) > 8 else "")
    world = f" of {info['world_size']}" if info["world_size"] else ""
    flags = [
        word
        for word, on in (
            ("python stacks", info["with_stack"]),
            ("shapes", info["record_shapes"]),
            ("memory", info["profile_memory"]),
        )
        if on
    ]
    marked = steps.filter(pl.col("evidence") != "whole_trace")
    if marked.is_empty():
        said = "none marked; the whole trace counts as one"
    else:
        lengths = marked["dur_ns"]
        spread = f" ({duration(lengths.min())} to {duration(lengths.max())})" if len(lengths) > 1 else ""  # type: ignore[arg-type]
        said = f"{len(lengths)}, mean {duration(lengths.mean())}{spread}"  # type: ignore[arg-type]
        said += f", inferred from {sign}" if (sign := INFERRED.get(marked["evidence"][0])) else ""
    # A capture of a GPU run may lack the GPU's side: the host's calls then show that there was one.
    has_calls = trace.sql(
        "select exists (select 1 from event where rank = $rank and category like 'cuda%')", rank=rank
    ).item()
    no_device = "GPU" if has_gpu else "no GPU work was read" if info["damage"] or has_calls else "CPU only"
    found = {
        "device": ", ".join(devices) + ("" if has_gpu else ", whose work takes no time") if devices else no_device,
        "ranks": ("rank " if len(trace.ranks) == 1 else "ranks ") + ranks + world,
        "steps": said,
        "events": f"{info['event_count']:,} in {duration((info['end_ns'] or 0) - (info['start_ns'] or 0))}",
        "recorded": ", ".join(flags) if flags else "times only (no stacks, shapes or memory)",
    }
    mean = None if marked.is_empty() else marked.select(pl.col("dur_ns").mean()).item()
    found |= given(info["metadata"], mean, frozenset(found))
    if info["damage"]:
        found["damage"] = f"{safe(info['damage'])}; {lost_events(info['lost_event_count'], info['truncated'])}"
    return found


def headline(bound: Finding, slowest: Finding, phases: pl.DataFrame, *, damaged: bool) -> str:
    """One sentence: what limits the run, in which phase, and which op is slowest."""
    names = {
        "gpu-bound": "The run is GPU-bound",
        "communication-bound": "The run is bound by communication on the GPU",
        "copy-bound": "The run is bound by copies on the GPU",
        "input-bound": "The run is input-bound: the GPU waits for data",
        "sync-bound": "The run is sync-bound: the CPU stops to wait for the GPU, and the GPU then waits for the CPU",
        "launch-bound": "The run is launch-bound: the CPU cannot launch work as fast as the GPU finishes it",
        "python-bound": "The run is bound by python on the CPU",
        "gpu-wait-bound": "The GPU waits for its own work: streams, events or the gaps between kernels",
        "mixed": "The GPU idles for several reasons",
        "unknown": "The GPU idles before work whose launch is not in the trace",
        "no-gpu": "The trace shows no GPU work",
    }
    on_cpu = bound.answer == "no-gpu"
    where = phases.select("phase", time=pl.col("cpu_ns") if on_cpu else pl.col("gpu_busy_ns") + pl.col("gpu_idle_ns"))
    total = where["time"].sum()
    parts = [names[bound.answer]]
    if total and where.height > 1:
        (phase, time), (second, second_time) = where.sort("time", "phase", descending=[True, False]).rows()[:2]
        whose = "CPU's time" if on_cpu else "GPU's time, its waiting included"
        share = f"of the {whose}"
        if second_time >= _TIE * time:
            both = f"{percent(100 * time / total)} and {percent(100 * second_time / total)}"
            parts.append(f"{phase} and {second} take {both} {share}")
        else:
            parts.append(f"{phase} takes {percent(100 * time / total)} {share}")
    if not slowest.evidence.is_empty():
        parts.append(f"the slowest op is {_op(slowest.answer)}")
    return "; ".join(parts) + "." + (_INCOMPLETE if damaged else "")


def slowest_op(trace: Trace, rank: int, has_gpu: bool) -> Finding:
    """The op with most self time, on the GPU if there is one; its evidence are the slowest ops."""
    question = "Which op is slowest?"
    frame = breakdown.slowest_ops(trace, ROWS, rank=rank, sort="gpu_self" if has_gpu else "cpu_self")
    if frame.is_empty():
        kernels = breakdown.slowest_ops(trace, 1, by="kernel", rank=rank)
        statement = "The trace has no CPU ops."
        if not kernels.is_empty():
            row = kernels.row(0, named=True)
            statement += (
                f" The slowest kernel is {safe(row['short_name'])}:"
                f" {duration(row['gpu_time_ns'])} in {row['count']:,} runs,"
                f" {percent(row['gpu_time_pct'])} of GPU time."
            )
        return Finding(question, "unknown", statement, "", {}, frame)
    row = frame.row(0, named=True)
    calls = f"{row['count']:,} call{'s' if row['count'] != 1 else ''}"
    if has_gpu:
        what = (
            f"{duration(row['gpu_self_ns'])} of GPU time in {calls},"
            f" {percent(row['gpu_self_pct'])} of the GPU time that ops launched"
        )
    else:
        what = f"{duration(row['cpu_self_ns'])} of CPU self time in {calls}, {percent(row['cpu_self_pct'])} of all ops"
    return Finding(question, row["name"], f"{_op(row['name'])}: {what}.", "", {}, frame)


def _op(name: str) -> str:
    """The name of an op; of one that only experts know, with what it is."""
    return safe(name) + (
        " (collective communication)" if name.startswith(("record_param_comms", "c10d::", "nccl:")) else ""
    )
