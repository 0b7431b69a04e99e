"""A report on the difference of two runs: a waterfall, then the difference by phase, module, region, op and kernel."""

from __future__ import annotations

from typing import Any

import polars as pl

from hotline_analysis.answers.comparison import Chosen, Comparison, Level, Side, Timeline, compare
from hotline_analysis.answers.limits import LEAST_PCT
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.document import Report
from hotline_analysis.reports.sections.changed_kinds import changed_kinds
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import delta, duration, module_name, percent, safe, signed
from hotline_analysis.vocabulary import USE_CAUSES, Phase, idle_title

_ROWS = 10
_KINDS = 2  # changed kinds of steps in the headline
_NO_STEP_PCT = 2.0  # minimum share of GPU time launched outside steps for a note

_TITLES: dict[Level, tuple[str, str]] = {
    "part": (
        "Waterfall",
        "From A to B. Idle parts say what the GPU waited for; computation hides communication and copies that overlap.",
    ),
    "phase": ("Phases", "GPU work and the idle time before it count to the phase that launched it."),
    "module": ("Modules", "By path. With the idle time before the module's work."),
    "region": ("Regions", "Innermost annotation around the launch, else the outermost op; with the idle time before."),
    "op": ("Ops", "The time of work by the op that launched it, without idle time; idle time by its cause."),
    "kernel": ("Kernels", "By op and short name. A kernel that only one device has is added or removed."),
}
_IDLE = {f"idle: {cause}": idle_title(cause) for cause in USE_CAUSES}
_IN_WORDS = {"added": "only in B", "removed": "only in A", "noise": "within noise", "same": ""}


def diff_report(
    a: Trace,
    b: Trace,
    *,
    timeline: Timeline | None = None,
    rank_a: int | None = None,
    rank_b: int | None = None,
    step_a: int | None = None,
    step_b: int | None = None,
    device_a: int | None = None,
    device_b: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> Report:
    """Report why steps of `b` are slower or faster than steps of `a`. The arguments are the same as for `diff`.

    All tables add up to the same difference. A table has the largest rows, then one row for the remaining changes and
    one row for changes within noise.
    """
    left, right = Chosen(a, rank_a, step_a, device_a), Chosen(b, rank_b, step_b, device_b)
    sides = compare(left, right, timeline=timeline, phase=phase, module=module)
    levels: list[Level] = ["part", "phase", "module", "region", "op"]
    if not all(side.parts["module_path"].null_count() < side.parts.height for side in (sides.a, sides.b)):
        levels.remove("module")
    if sides.timeline == "gpu":
        levels.append("kernel")
    frames = {level: sides.by(level) for level in levels}
    whole = sides.by("step")
    total: dict[str, Any] = {"a_ns": 0, "b_ns": 0, "delta_ns": 0, "noise_ns": None}
    if whole.height:
        total = whole.row(0, named=True)
    kinds, of_kinds = changed_kinds(left, right)
    where = "on the GPU (busy and idle)" if sides.timeline == "gpu" else "on the main CPU thread"
    return Report(
        title="What changed from A to B",
        facts={"A": _describe(sides.a), "B": _describe(sides.b)},
        headline=" ".join([_headline(total, frames["part"], where), *of_kinds[:_KINDS]]),
        caveats=_notes(sides, frames),
        advice=[],
        findings=[],
        sections=[
            *([kinds] if kinds else []),
            *(_section(level, frames[level], sides.timeline) for level in levels),
        ],
        coverage=(
            f"Mean per step {where}: A {total['a_ns']:,} ns, B {total['b_ns']:,} ns, difference"
            f" {signed(total['delta_ns'])} ns. The rows of each table add up to it exactly."
        ),
        recapture=[],
        warnings=[safe(text) for trace in (a, b) for text in trace.manifest["warnings"]],
    )


def _describe(side: Side) -> str:
    trace, rank, step = side.chosen.trace, side.chosen.rank, side.chosen.step
    files = trace.of(rank).sql(
        "select file from rank_info where $rank is null or rank = $rank order by rank", rank=rank
    )["file"]
    ranks = f"rank {rank if rank is not None else trace.ranks[0]}"
    if rank is None and len(trace.ranks) > 1:
        ranks = f"{len(trace.ranks)} ranks"
    steps = f"step {step}" if step is not None else f"{side.step_count} step{'s' if side.step_count != 1 else ''}"
    device = ", ".join(_devices(trace, rank))
    return ", ".join(part for part in (safe(files[0]), ranks, steps, device) if part)


def _devices(trace: Trace, rank: int | None) -> list[str]:
    found = trace.of(rank).sql(
        "select distinct device.name from gpu_op"
        " inner join device on gpu_op.rank = device.rank and gpu_op.device = device.device_id"
        " where ($rank is null or gpu_op.rank = $rank) and device.name is not null order by all",
        rank=rank,
    )
    return [safe(name) for name in found["name"]]


def _headline(total: dict[str, Any], parts: pl.DataFrame, where: str) -> str:
    change = total["delta_ns"]
    if change == 0:
        return f"A step takes the same time in both: {duration(total['a_ns'])} {where}."
    changed = parts.filter(~pl.col("change").is_in(["noise", "same"]))
    if total["noise_ns"] is not None and abs(change) <= total["noise_ns"]:
        # Noise in other parts can hide a real change: list parts changed by more than the step and by LEAST_PCT.
        least = max(abs(change), LEAST_PCT / 100 * total["a_ns"])
        more = _changes(changed.filter(pl.col("delta_ns").abs() > least))
        return (
            f"No difference beyond noise: a step takes {duration(total['a_ns'])} in A and {duration(total['b_ns'])}"
            f" in B {where}; as steps vary, only a difference above {duration(total['noise_ns'])} would count."
        ) + (f" These parts changed by more than the step, and beyond their own noise: {more}." if more else "")
    relative = f" ({signed(100 * change / total['a_ns'])} %)" if total["a_ns"] else ""
    because = _changes(changed.head(3))
    return f"A step of B takes {duration(total['b_ns'])} {where}, {delta(change)}{relative} against A" + (
        f": {because}." if because else "."
    )


def _changes(parts: pl.DataFrame) -> str:
    return ", ".join(f"{_IDLE.get(row['part'], row['part'])} {delta(row['delta_ns'])}" for row in parts.to_dicts())


# --- the tables ------------------------------------------------------------------------------------------------------


def _section(level: Level, frame: pl.DataFrame, timeline: Timeline) -> Section:
    title, note = _TITLES[level]
    if timeline == "cpu":
        note = "Time of the main CPU thread."
    times = ("a_ns", "b_ns", "delta_ns")
    named = frame.with_columns(
        label=pl.Series([_label(level, row) for row in frame.to_dicts()], dtype=pl.String),
        what=pl.col("change").replace(_IN_WORDS),
    ).select("label", *times, "noise_ns", "what", "change")
    is_news = ~pl.col("change").is_in(["noise", "same"]) if level not in ("part", "phase") else pl.lit(True)
    news = named.filter(is_news)
    shown = news.head(_ROWS)
    more, quiet = news.slice(_ROWS), named.filter(~is_news)
    rest = [(f"… {more.height} more", more), (f"within noise: {quiet.height}", quiet)]
    rows = [shown.drop("change")]
    for label, left in [*((label, left) for label, left in rest if left.height), ("total", named)]:
        sums = {name: left[name].sum() for name in times}
        rows.append(pl.DataFrame([{"label": label, **sums, "noise_ns": None, "what": ""}], schema=rows[0].schema))
    return Section(
        level,
        title,
        note,
        [
            Field("label", level if level != "part" else "part of the step", "name"),
            Field("a_ns", "A", "time"),
            Field("b_ns", "B", "time"),
            Field("delta_ns", "change", "delta"),
            Field("noise_ns", "noise below", "time"),
            Field("what", "", "name"),
        ],
        pl.concat(rows),
    )


def _label(level: Level, row: dict[str, str | None]) -> str:
    if level == "part":
        return _IDLE.get(row["part"] or "", row["part"] or "")
    if level in ("op", "kernel") and (row["part"] or "").startswith("idle"):
        return _IDLE.get(row["part"] or "", row["part"] or "")
    if level == "op":
        return row["op"] or ("outside ops" if row["part"] == "outside ops" else f"{row['part']} without an op")
    if level == "kernel":
        kernel = row["kernel"] or ""
        return f"{kernel} ← {row['op']}" if row["op"] else kernel
    if level == "module":
        return module_name(row["module_path"]) if row["module_path"] else "outside modules"
    if level == "region":
        where = row["region"] or "outside regions"
        return f"{row['phase']}: {where}" if row["phase"] else "launched by no step"
    return row["phase"] or "launched by no step"


# --- caveats ---------------------------------------------------------------------------------------------------------


def _notes(sides: Comparison, frames: dict[Level, pl.DataFrame]) -> list[str]:
    notes = []
    graphs = {name: int(side.parts["graph_count"].sum()) for name, side in (("A", sides.a), ("B", sides.b))}
    for name, side, trace_has in (("A", sides.a, graphs["A"]), ("B", sides.b, graphs["B"])):
        if trace_has:
            launched = side.parts.filter(pl.col("graph_count") > 0)
            busy = int(launched["time_ns"].sum()) // side.step_count
            ops = launched["op"].drop_nulls().unique().sort().to_list()
            by = f" ({', '.join(safe(op) for op in ops[:3])}{', …' if len(ops) > 3 else ''})" if ops else ""
            notes.append(
                f"{name} launches {trace_has // side.step_count:,} GPU events per step ({duration(busy)}) by graphs."
                f" A graph launch hides the ops inside the graph: its work counts to the op around the launch{by},"
                " and the ops of the other side look removed. Compare phases and annotated regions first, then kernels."
            )
    if (graphs["A"] > 0) != (graphs["B"] > 0):
        copies = sides.by("part").filter(pl.col("part") == "memory").to_dicts()
        if copies and copies[0]["delta_ns"] > 0 and copies[0]["change"] != "noise" and graphs["B"]:
            notes.append(
                f"Copies cost {delta(copies[0]['delta_ns'])}: a graph reads its inputs at fixed addresses, so they are"
                " copied there first. Write inputs into the static tensors directly, or capture less."
            )
    left, right = (_devices(side.chosen.trace, None) for side in (sides.a, sides.b))
    if left and right and left != right:
        notes.append(
            f"The devices differ ({', '.join(left)}; {', '.join(right)}): a slower op may be the hardware. Kernels have"
            " other names there; ops, modules and regions are matched by name."
        )
    for name, side in (("A", sides.a), ("B", sides.b)):
        whole = int(side.parts["time_ns"].sum())
        is_compared = side.parts["step"].is_null().any()
        share = 100 * side.outside_ns / max(1, whole if is_compared else whole + side.outside_ns)
        if share >= _NO_STEP_PCT:
            notes.append(
                f"{percent(share)} of {name}'s GPU time ({duration(side.outside_ns)}) was launched by no step, mostly"
                f" before the trace began; it is {'compared as if it were of one' if is_compared else 'not compared'}."
            )
    if min(sides.a.step_count, sides.b.step_count) == 1:
        notes.append(
            "A side has a single step, so noise cannot be told from change"
            + (" there: the other side's spread stands for both." if sides.a.step_count != sides.b.step_count else ".")
            + " Record several steps."
        )
    return notes
