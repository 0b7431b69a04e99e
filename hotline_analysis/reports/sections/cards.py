"""The first lines of a report: facts of the run, short answers, and the phases of a mean step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import StepLoop
from hotline_analysis.answers.verdicts import HEADLINES
from hotline_analysis.reports.content import A_STEP, Card, PhaseTime
from hotline_analysis.reports.sections.given import rate_words
from hotline_analysis.reports.sections.sentence import Symptom, op_name
from hotline_analysis.reports.sections.subject import devices_in_words, model_name
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, safe, shorten, whole_percent, whole_shares
from hotline_analysis.vocabulary import PHASES

_LONGEST = 40
_TWO = 2  # kinds of steps that fit in a line
_UNSHARED = ("unbalanced", "in-turns")


def head_parts(trace: Trace, rank: int, facts: Mapping[str, str], loop: StepLoop | None) -> list[str]:
    """Model, device, rank, step time, throughput and batch, as far as known: the first line of a report in any format.

    Throughput and batch are given by the user, or else found in the shapes of ops.
    """
    parts = [model_name(trace, rank) or "Model not recorded"]
    parts.append(shorten(devices_in_words(facts["device"]).replace("NVIDIA ", ""), 2 * _LONGEST))
    parts.append(facts["ranks"] if len(trace.ranks) == 1 else f"rank {rank} of {len(trace.ranks):,} ranks")
    if loop is None or not loop.loops:
        return [*parts, "no steps marked", *_throughput(facts, None, 0)]
    steps = f"{loop.count:,} step{'s' if loop.count > 1 else ''} of {duration(loop.mean_ns)}"
    parts.append(f"{steps}{_spread(trace, rank, loop)}")
    row = next(answers.throughput(trace, rank=rank).iter_rows(named=True), {"samples": None})
    return [*parts, *_throughput(facts, row["samples"], loop.mean_ns)]


def _spread(trace: Trace, rank: int, loop: StepLoop) -> str:
    """The lengths of the steps after their mean: of two kinds, or else the least and the most."""
    if len(loop.kinds) == _TWO:
        means = [f"{kind.count:,} × {duration(kind.total_ns // kind.count)}" for kind in loop.kinds]
        return f" ({' and '.join(means)})"
    least, most = min(kind.least_ns for kind in loop.kinds), max(kind.most_ns for kind in loop.kinds)
    ends = [duration(least), duration(most)]
    # The loop's mean includes time between steps, so the mean may exceed the longest step.
    return f" ({' to '.join(ends)})" if least <= loop.mean_ns <= most and ends[0] != ends[1] else ""


def _throughput(facts: Mapping[str, str], samples: int | None, mean_ns: int) -> list[str]:
    rate = rate_words(samples * 1e9 / mean_ns) if samples and mean_ns else ""
    batch = facts.get("batch size", f"{samples:,}" if samples else "")
    return [part for part in (facts.get("throughput", rate), f"batch {batch}" if batch else "") if part]


def cards(
    bound: Finding,
    symptom: Symptom,
    balance: Finding,
    optimizer: Finding,
    slowest: Finding,
    phases: Sequence[PhaseTime],
    modules: pl.DataFrame | None,
    whole: str,
) -> list[Card]:
    """The answers to three questions. A question that does not apply is replaced by another question."""
    if bound.answer == "no-run":
        return []
    found = [Card("What takes the time?" if bound.answer == "no-gpu" else "GPU or CPU?", symptom.answer)]
    if balance.answer in _UNSHARED:
        found.append(Card("Do the GPUs share it?", HEADLINES[balance.answer]))
    is_training = any(each.phase == "backward" for each in phases)
    if optimizer.answer == "no-optimizer" and not is_training:
        found += _slowest_module(modules)
    else:
        found.append(_optimizer(optimizer, whole))
    return [*found, _slowest(slowest, whole)]


def says_again(slowest: Finding, symptom: Symptom) -> bool:
    """Whether the slowest place is the phase that the sentence names: `loading data`."""
    rows = slowest.evidence
    if not {"kind", "phase"} <= set(rows.columns) or rows.is_empty():
        return False
    return bool(rows["kind"][0] == "phase" and rows["phase"][0] == symptom.limit)


def _optimizer(finding: Finding, whole: str) -> Card:
    question = "Is it the optimizer?"
    gain = finding.numbers.get("gain_pct")
    if gain is None:
        return Card(question, "None recorded")
    answer = HEADLINES[finding.answer]
    if gain < 0.5:
        return Card(question, answer, f"under 1 % of {whole}")
    return Card(question, answer, f"at most {whole_percent(gain)} of {whole}")


def _slowest_module(modules: pl.DataFrame | None) -> list[Card]:
    """The type of modules with most own time: a model has many equal layers, each with a small part of the time."""
    if modules is None or modules.is_empty():
        return []
    row = modules.row(0, named=True)
    device = "gpu" if row["gpu_self_ns"] else "cpu"
    if not row[f"{device}_self_ns"]:
        return []
    share = f"{whole_percent(row[f'{device}_self_pct'])} of the modules' {device.upper()} time"
    name = shorten(safe(row["module"] if "module" in row else row["type"]), _LONGEST)
    if row["module_count"] == 1:
        return [Card("Slowest module?", name, share)]
    return [Card("Slowest modules?", f"{name} × {row['module_count']:,}", share)]


def _slowest(finding: Finding, whole: str) -> Card:
    numbers = finding.numbers
    if "path_ns" in numbers:
        mean = "a mean step" if whole == A_STEP else whole
        note = f"{duration(numbers['path_ns'])} of {mean}"
        return Card("Slowest place?", shorten(safe(finding.answer), _LONGEST), note)
    for name, whole in (
        ("gpu_self", "all GPU time"),
        ("gpu_time", "all GPU time"),
        ("cpu_self", "the time in ops"),
    ):
        if f"{name}_ns" in numbers:
            question = "Slowest kernel?" if name == "gpu_time" else "Slowest op?"
            note = f"{whole_percent(numbers[f'{name}_pct'])} of {whole}"
            return Card(question, shorten(op_name(finding.answer), _LONGEST), note)
    return Card("Slowest op?", "The trace has none")


def phase_times(trace: Trace, rank: int) -> list[PhaseTime]:
    """The main thread's time by phase of a mean counted step, in the order of phases within a step."""
    rows = trace.of(rank).sql(
        """
        select
            coalesce(step_activity.phase, 'other') as phase,
            sum(step_activity.time_ns)::bigint as time_ns,
            coalesce(sum(step_activity.time_ns) filter (where step_activity.activity = 'sync'), 0)::bigint
                as waiting_ns,
            (select count(*) from step_length where rank = $rank and kind is not null) as step_count
        from step_activity
        inner join step_length
            on step_activity.rank = step_length.rank and step_activity.step = step_length.step
        where step_activity.rank = $rank and step_length.kind is not null and step_activity.region is null
        group by all
        having sum(step_activity.time_ns) > 0
        order by min(list_position($phases, coalesce(step_activity.phase, 'other')))
        """,
        rank=rank,
        phases=list(PHASES),
    )
    shares = whole_shares(rows["time_ns"].to_list())
    return [
        PhaseTime(phase, round(time_ns / count), share, round(waiting_ns / count))
        for (phase, time_ns, waiting_ns, count), share in zip(rows.rows(), shares, strict=True)
    ]
