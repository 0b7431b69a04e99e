"""Advice for slow steps: rules that find avoidable time, and the step time gained without it.

Each rule is one query in `queries/advice`, whose header names its condition, its bound and its source. The time found
by a rule is removed from the dependency graphs of the typical steps of all kinds. The steps are then replayed, and the
difference is the gain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.limits import LEAST_PCT, StepLoop, TypicalStep, step_loop
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.place_pieces import KEY, loop_pieces, place_pieces
from hotline_analysis.answers.places import place_words
from hotline_analysis.answers.recorded import is_of_nsight, is_of_xla, lacks_gpu_work, no_run
from hotline_analysis.answers.waiting import find_late_rank, late_wait, loop_waits_ns
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe, times

_OFTEN = ("gpu_event", "host_activity")
"""Views read by many rules."""
_OF_ONE_RANK = ("unseen_rank",)
"""Rules about ranks without a file. They run only if the trace has a single rank."""
_OWN_DATA = ("loader_in_main_process", "loader_too_few_workers", "preprocessing_outside_loader")
"""Rules about data loading of one rank. The rank gains nothing from these if it waits longer for the other ranks."""
_IS_HOST = pl.col("kind").is_in(["host", "handoff"])
_OF_USER = ("frame", "region", "sampled")
"""Kinds of places named or written by the user."""
_PLACE_PCT = 5.0
"""Minimum share of the step for a place to become its own advice."""
UNNAMED = "unnamed_time"
"""Name of the advice on time without a region, function or module."""
SLOWEST = "slowest_place"
"""Name of the advice on the user's slowest place."""
_PYTHON = "python_overhead"
"""Name of the rule about python in general."""
_STRETCH = "user_stretch"
"""Name of the rule about the user's code outside of the model."""
NAME_IT = (
    'Record with_stack=True, or wrap the code in hotline_analysis.annotate("NAME"), so that the report names it. Such'
    " time is often logging, metrics, files or a copy to the CPU: do it every some steps, or in another thread."
)
ANNOTATE_IT = (
    'Wrap the code in hotline_analysis.annotate("NAME"), so that the report names it. Such time is often logging,'
    " metrics, files or a copy to the CPU: do it every some steps, or in another thread."
)
NVTX_IT = (
    'Wrap the code in torch.cuda.nvtx.range("NAME"), so that the report names it. Such time is often logging, metrics,'
    " files or a copy to the CPU: do it every some steps, or in another thread."
)
_OF_MODEL = (
    "Make it faster: take loops, checks and conversions in python out of the function, compute on whole tensors, or let"
    " torch.compile run it."
)
_DO_LESS = "Make it faster, do it every some steps, or move it off the thread of the training loop."


@dataclass(frozen=True)
class Advice:
    """A change that would make steps shorter.

    `what` describes the time found in the step, and `do` the remedy. `where` is the module and the line of the user's
    code with most of the time (empty if the trace does not show it). `gain_ns` is the maximum gain per step, found by
    replaying the step without this time, and `gain_pct` the gain as a share of the step. Gains of several rules do not
    add up where they find the same time. `event_id` is the longest event, of the events that `what` names. `scenario`
    is the `whatif` scenario of this advice (empty if there is none). `predicted_low_ns` and `predicted_high_ns` are the
    predicted gain per step, in a report with predictions.
    """

    rule: str
    what: str
    where: str
    do: str
    count: int
    time_ns: int
    gain_ns: int
    gain_pct: float
    event_id: int
    scenario: str = ""
    predicted_low_ns: int | None = None
    predicted_high_ns: int | None = None

    @property
    def predicted(self) -> str:
        """The predicted gain as a sentence; empty without a prediction."""
        if self.predicted_low_ns is None or self.predicted_high_ns is None:
            return ""
        range_text = f"{duration(self.predicted_low_ns)} to" if self.predicted_low_ns else "up to"
        range_text += f" {duration(self.predicted_high_ns)}"
        return f"Over all steps, the whole change is predicted to gain {range_text} a step ({self.scenario})."

    def __str__(self) -> str:
        location = f" ({self.where})" if self.where else ""
        shorter = f"the step is {percent(self.gain_pct)} shorter without it"
        return f"{self.what}{location}: {shorter}. {self.do} {self.predicted}".rstrip()


def find_advice(trace: Trace, rank: int | None = None, *, rules: Collection[str] | None = None) -> list[Advice]:
    """Run the rules on the typical step of each kind of a rank (default: the lowest); the largest gain first.

    `rules` selects rules by name; the default is all rules. The list is empty for a trace that does not record a run
    (`caveats`), or whose GPU work is lost.
    """
    chosen_rank = min(trace.ranks) if rank is None else rank
    loop = step_loop(trace, chosen_rank)
    if loop is None or not loop.mean_ns or no_run(trace, chosen_rank) or lacks_gpu_work(trace, chosen_rank):
        return []
    by_rule: dict[str, list[tuple[TypicalStep, Advice]]] = {}
    for kind in loop.kinds:
        for each in _of_kind(trace, chosen_rank, kind, rules):
            by_rule.setdefault(each.rule, []).append((kind, each))
    over_loop = [_over_loop(loop, parts) for parts in by_rule.values()]
    waits = loop_waits_ns(trace, chosen_rank) // loop.count
    over_loop = [each for each in over_loop if each.rule not in _OWN_DATA or each.gain_ns > waits]
    over_loop = [_over_all_steps(trace, chosen_rank, loop, each) for each in over_loop]
    worth = [each for each in over_loop if each.gain_pct >= LEAST_PCT]
    worth = _with_places(worth, _of_places(trace, chosen_rank, loop, worth, rules))
    worth.sort(key=lambda each: (-each.gain_ns, each.rule))
    return _with_late_rank(trace, chosen_rank, loop, worth) if rules is None or "late_rank" in rules else worth


def _of_kind(trace: Trace, rank: int, kind: TypicalStep, rules: Collection[str] | None) -> list[Advice]:
    """The advice on the typical step of one kind."""
    if not kind.replay.period_ns:
        return []
    with trace.of_step(_OFTEN, rank, kind.step) as step_trace:
        queries = [rule for rule in catalog.queries("advice") if rules is None or rule.name in rules]
        about_all = {rule.name for rule in queries if catalog.compares_ranks(rule.name)}
        if len(trace.ranks) == 1:  # a single rank has nothing to compare, and finding out takes longer than most rules
            queries = [rule for rule in queries if rule.name not in about_all]
        else:
            queries = [rule for rule in queries if rule.name not in _OF_ONE_RANK]
        queries = _with_rows(step_trace, queries)
        results = [_of_rule(trace if rule.name in about_all else step_trace, rank, kind, rule) for rule in queries]
    findings = [result for result in results if result]
    for advice, rows in findings:
        _keep(trace, rank, kind.step, advice.rule, rows)
    return [_with_place(trace, rank, kind, *finding) for finding in findings]


class _Rows:
    """The rows of the rules by rank, step and rule, in `Trace.memo`."""


def _keep(trace: Trace, rank: int, step: int, rule: str, rows: pl.DataFrame) -> None:
    trace.memo.setdefault(_Rows, {})[rank, step, rule] = rows


def found_rows(trace: Trace, rank: int, advice: Advice) -> dict[int, pl.DataFrame]:
    """Return the evidence rows of an advice of `find_advice`, by the typical step of each kind.

    Each row is a place in the step: `event_id`, `start_ns`, `end_ns` and `effect`. Advice about several ranks has no
    rows.
    """
    kept: dict[tuple[int, int, str], pl.DataFrame] = trace.memo.get(_Rows, {})
    return {
        step: rows
        for (row_rank, step, name), rows in kept.items()
        if row_rank == rank and (name == advice.rule or advice.what.startswith(f"{name}:"))
    }


def _with_place(trace: Trace, rank: int, kind: TypicalStep, advice: Advice, rows: pl.DataFrame) -> Advice:
    """The advice located at the user's function or region with most of its time, if it has no location yet."""
    on_threads = rows.filter(effect="host")
    pieces = place_pieces(trace, rank)
    if advice.where not in ("", _event(advice.event_id)) or on_threads.is_empty() or pieces.is_empty():
        return advice
    pieces = pieces.filter(pl.col("step_kind") == kind.kind, pl.col("end_ns") > pl.col("start_ns"))
    lengths = on_threads.select("track_id", "start_ns", "end_ns", length_ns=pl.col("end_ns") - pl.col("start_ns"))
    overlaps = pieces.with_columns(shared_ns=within(pieces, lengths.unique(), "length_ns"))
    places = overlaps.group_by("kind", "place", "own_source").agg(pl.col("shared_ns", "path_ns").sum())
    user_places = places.filter(pl.col("kind").is_in(_OF_USER)).sort("shared_ns", "place", descending=[True, False])
    total_ns = lengths.unique()["length_ns"].sum()
    if user_places.is_empty() or 2 * user_places["shared_ns"][0] < total_ns:
        # The loader, `backward()` or `step()` has no code of the user; the user's line calls it.
        calls = overlaps.filter(pl.col("kind") == "phase", pl.col("source").is_not_null())
        calls = (
            calls.group_by("source")
            .agg(pl.col("shared_ns").sum())
            .sort("shared_ns", "source", descending=[True, False])
        )
        if calls.is_empty() or 2 * calls["shared_ns"][0] < total_ns:
            return advice
        return replace(advice, where=f"{safe(calls['source'][0])}, {_event(advice.event_id)}")
    row = {**user_places.row(0, named=True), "source": user_places["own_source"][0], "phase": ""}
    return replace(advice, where=f"{place_words(row)}, {_event(advice.event_id)}")


def _of_places(
    trace: Trace, rank: int, loop: StepLoop, found: Sequence[Advice], rules: Collection[str] | None
) -> list[Advice]:
    """Advice on unnamed time, and on the user's slowest place, unless a larger finding of a rule is about the place."""
    pieces = place_pieces(trace, rank)
    if pieces.is_empty():
        return []
    on_threads = pieces.filter(pl.col("end_ns") > pl.col("start_ns"))
    parts = (
        on_threads.group_by("kind", "place", "limit", "phase")
        .agg(pl.col("path_ns").sum())
        .filter(100 * pl.col("path_ns") >= _PLACE_PCT * loop.mean_ns)
    )
    advice = []
    is_python = pl.col("limit") == "python"
    rest = parts.filter(is_python, kind="rest", phase="other").sort("path_ns", descending=True)
    unnamed = [
        (row["place"], on_threads.filter(kind="rest", place=row["place"], limit=row["limit"]))
        for row in rest.iter_rows(named=True)
    ]
    # Python inside a phase belongs to the phase, unless it is too long for a model: an environment, a file, a sleep.
    least_ns = trace.sql("select long_python_ns() as least_ns").item()
    is_long = pl.col("end_ns") - pl.col("start_ns") >= least_ns
    in_phase = on_threads.filter(is_python & is_long, kind="phase", phase="forward")
    if 100 * in_phase["path_ns"].sum() >= _PLACE_PCT * loop.mean_ns:
        unnamed.append(("in forward", in_phase))
    loading = on_threads.filter(is_long, kind="phase", phase="load_data", limit="load_data")
    if 100 * loading["path_ns"].sum() >= _PLACE_PCT * loop.mean_ns and not shows_loading(trace, rank):
        unnamed.append(("before the model", loading))
    if not is_of_xla(trace, rank) and (rules is None or UNNAMED in rules):  # XLA traces have no stacks to record
        for place, own_pieces in unnamed:
            statement = f"Python that the trace does not name, {place}"
            has_stacks = trace.of(rank).sql("select exists (from python_call where rank = $rank)", rank=rank).item()
            remedy = NVTX_IT if is_of_nsight(trace, rank) else ANNOTATE_IT if has_stacks else NAME_IT
            advice.append(_of_place(trace, rank, loop, own_pieces, UNNAMED, statement, remedy))
    # Within a phase, only python is the user's own code. Ops belong to the phase itself, except in an optimizer written
    # by the user.
    is_own_optimizer = (pl.col("kind") == "sampled") & (pl.col("phase") == "optimizer")
    # In a trace without phases, ops are the program's own computing.
    has_phases = bool((pieces["phase"] != "other").any())
    is_own = ((pl.col("phase") == "other") & has_phases) | (pl.col("limit") == "python") | is_own_optimizer
    of_user = pl.col("kind").is_in(_OF_USER) & is_own
    if rules is None or SLOWEST in rules:
        own_pieces = on_threads.filter(of_user).filter(~pl.col("is_loop"))
        top = own_pieces.group_by("kind", "place", "own_source").agg(pl.col("path_ns").sum())
        top = top.sort("path_ns", "place", descending=[True, False]).head(1)
        for kind, place, source, path_ns in top.iter_rows():
            own_pieces = own_pieces.filter(pl.col("kind") == kind, pl.col("place") == place)
            own_pieces = own_pieces.filter(pl.col("own_source").eq_missing(pl.lit(source)))
            larger = [
                finding
                for finding in found
                if finding.rule != _PYTHON and finding.gain_pct * loop.mean_ns > 100 * path_ns
            ]
            is_known = any(_is_about(trace, rank, loop, finding, own_pieces) for finding in larger)
            if is_known or 100 * path_ns < _PLACE_PCT * loop.mean_ns:
                continue
            words = place_words({"kind": kind, "place": place, "source": source, "phase": "other"})
            statement = f"The slowest place{' of your code' if larger else ''} is {words}"
            do = _OF_MODEL if place.endswith("forward") else _DO_LESS
            advice.append(_of_place(trace, rank, loop, own_pieces, SLOWEST, statement, do))
    found_advice = [_over_all_steps(trace, rank, loop, finding) for finding in advice if finding is not None]
    return [finding for finding in found_advice if finding.gain_pct >= LEAST_PCT]


def shows_loading(trace: Trace, rank: int) -> bool:
    """Whether a trace can show the loading of data: by python frames, samples, or the mark of a DataLoader."""
    frame = trace.of(rank).sql(
        """
        select
            exists (from python_call where rank = $rank)
            or exists (from sampled_frame where rank = $rank)
            or exists (from name_info where rank = $rank and is_loader_mark(name)) as found
        """,
        rank=rank,
    )
    return bool(frame["found"][0])


def _is_about(trace: Trace, rank: int, loop: StepLoop, finding: Advice, pieces: pl.DataFrame) -> bool:
    """Whether the rows of a finding cover most of the time of the pieces."""
    rows_of_step = found_rows(trace, rank, finding)
    total_ns, shared_ns = 0, 0
    for kind in loop.kinds:
        kind_pieces = pieces.filter(step_kind=kind.kind)
        total_ns += int(kind_pieces.select(pl.col("end_ns") - pl.col("start_ns")).sum().item())
        if (rows := rows_of_step.get(kind.step)) is not None:
            spans = rows.filter(effect="host").select(
                "track_id", "start_ns", "end_ns", length_ns=pl.col("end_ns") - pl.col("start_ns")
            )
            shared_ns += int(within(kind_pieces, spans.unique(), "length_ns").sum())
    return 2 * shared_ns >= total_ns


def _with_places(found: Sequence[Advice], of_places: Sequence[Advice]) -> list[Advice]:
    """All advice, without the general python rule if one named place has most of its gain."""
    named_gain = max((finding.gain_ns for finding in of_places if finding.rule == SLOWEST), default=0)
    return [*(finding for finding in found if finding.rule != _PYTHON or 2 * named_gain < finding.gain_ns), *of_places]


def _of_place(
    trace: Trace, rank: int, loop: StepLoop, pieces: pl.DataFrame, rule: str, what: str, do: str
) -> Advice | None:
    """Advice on one place; `None` if the steps are as long without the place."""
    parts = []
    for kind in loop.kinds:
        kind_pieces = pieces.filter(step_kind=kind.kind)
        if kind_pieces.is_empty():
            continue
        rows = kind_pieces.select(
            "event_id",
            "track_id",
            "start_ns",
            "end_ns",
            effect=pl.lit("host"),
            saved_ns=pl.col("end_ns") - pl.col("start_ns"),
        ).unique(["track_id", "start_ns"], maintain_order=True)
        gain = kind.replay.period_ns - without(kind, rows)
        if gain <= 0:
            continue
        _keep(trace, rank, kind.step, what, rows)
        longest = rows.sort("saved_ns", "event_id", descending=[True, False]).row(0, named=True)
        time = int(rows["saved_ns"].sum())
        events = [*kind_pieces["named_id"].drop_nulls().head(1).to_list(), longest["event_id"]]
        event: int | None = events[0]
        # With one kind of steps, the time is of a mean step, as in the table of places.
        shown = time if len(loop.kinds) > 1 else round(kind.scale * time / loop.count)
        statement = f"{what}: {duration(shown)}"
        # Time without a name belongs to no function: an event next to it has another place.
        location = "" if event is None else _event(event) if rule == UNNAMED else _where(trace, rank, event)
        number = -1 if event is None else event
        pct = 100 * gain / kind.replay.period_ns
        parts.append((kind, Advice(rule, statement, location, do, rows.height, time, gain, pct, number)))
    return _over_loop(loop, parts) if parts else None


def _over_loop(loop: StepLoop, parts: Sequence[tuple[TypicalStep, Advice]]) -> Advice:
    """Combine the advice for several step kinds into advice for the loop, with the text of the kind with most gain."""
    gains = [kind.scale * finding.gain_ns for kind, finding in parts]
    _, best = parts[gains.index(max(gains))]
    gain = round(sum(gains) / loop.count)
    steps = sum(kind.count for kind, finding in parts if 10 * finding.gain_ns >= best.gain_ns)
    which = "each of " if steps > 1 else ""
    within = f" in {which}{steps:,} of {loop.count:,} steps" if steps < loop.count else ""
    return replace(best, what=best.what + within, gain_ns=gain, gain_pct=100 * gain / loop.mean_ns)


def _over_all_steps(trace: Trace, rank: int, loop: StepLoop, advice: Advice) -> Advice:
    """The advice on one place with the gain of all steps, if one step does not stand for all.

    Then `slowest_places` has the place's mean time over all steps, and the typical step may have more or less.
    """
    if loop.whole is None or advice.rule not in (_STRETCH, SLOWEST):
        return advice
    is_of_user = pl.col("kind").is_in(_OF_USER)
    typical = place_pieces(trace, rank).filter(is_of_user).group_by(KEY).agg(typical_ns=pl.col("path_ns").sum())
    whole = loop_pieces(trace, rank).filter(is_of_user).group_by(KEY).agg(whole_ns=pl.col("path_ns").sum())
    for row in whole.join(typical, on=KEY, nulls_equal=True).iter_rows(named=True):
        words = place_words({**row, "source": row["own_source"], "phase": "other"})
        if f"{words}:" in advice.what and row["typical_ns"]:
            gain = min(loop.mean_ns, round(advice.gain_ns * row["whole_ns"] / row["typical_ns"]))
            return replace(advice, gain_ns=gain, gain_pct=100 * gain / loop.mean_ns)
    return advice


def _with_late_rank(trace: Trace, rank: int, loop: StepLoop, advice: Sequence[Advice]) -> list[Advice]:
    """The advice with the late rank first, including the cause of its delay."""
    late = find_late_rank(trace)
    if late is None:
        return list(advice)
    first = next((finding for finding in advice if finding.rule == "late_rank"), None)
    if first is None and rank == late.rank:
        event, count, wait = late_wait(trace, rank, loop.typical.step)
        gain = min(late.step_wait_ns, loop.mean_ns)
        if count and 100 * gain >= LEAST_PCT * loop.mean_ns:
            what = "Collectives to which this rank comes last, and the others wait for it"
            what = f"{what}: {times(count)}, {duration(wait)}"
            share = 100 * gain / loop.mean_ns
            first = Advice("late_rank", what, "", late.remedy, count, wait, gain, share, event)
    if first is None:
        return list(advice)
    remedy = f"{late.cause} {late.remedy}".strip() or first.do
    return [replace(first, do=remedy), *(finding for finding in advice if finding.rule != "late_rank")]


def _with_rows(trace: Trace, rules: Sequence[catalog.Query]) -> list[catalog.Query]:
    """Keep the rules whose required sources (`Query.only_with`) have rows. One query checks all sources."""
    sources = sorted({source for rule in rules for alternatives in rule.only_with for source in alternatives})
    if not sources:
        return list(rules)
    (has_rows,) = trace.sql(f"select {', '.join(f'exists (from {source})' for source in sources)}").rows()
    presence = dict(zip(sources, has_rows, strict=True))
    return [
        rule
        for rule in rules
        if all(any(presence[source] for source in alternatives) for alternatives in rule.only_with)
    ]


def advice(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """Advice that would make steps shorter, the largest gain first: finding, location, remedy and maximum gain.

    One row per rule with a finding in the typical step of a kind (`step_kinds`) and a gain of at least 2 % of the loop.
    `count` and `time_ns` are the number and the time of the findings. `gain_ns` is found by replaying the step without
    this time; `gain_pct` is the gain as a share of the step. `event_id` is the longest finding. Gains do not add up
    where rules find the same time. The rules are the files of `queries/advice`. `rank` defaults to the lowest rank.
    """
    check_scope(trace, {"rank": rank})
    rows = [asdict(each) for each in find_advice(trace, rank)]
    return pl.DataFrame([{name: each[name] for name in _COLUMNS} for each in rows], _COLUMNS)


def _of_rule(trace: Trace, rank: int, typical: TypicalStep, rule: catalog.Query) -> tuple[Advice, pl.DataFrame] | None:
    """The advice of a rule on a typical step, and the rows found by the rule; `None` without a gain."""
    rows = trace.query(rule.name, rank=rank, step=typical.step)
    if rows.is_empty():
        return None
    step_ns = typical.replay.period_ns
    gain = step_ns - without(typical, rows)
    if gain <= 0:
        return None
    main_rows = rows.filter(effect="work") if (rows["effect"] == "work").any() else rows
    length = pl.col("end_ns") - pl.col("start_ns")
    time = int(main_rows.select(length.sum()).item())
    names = main_rows.group_by("name").agg(length.sum().alias("time")).sort("time", "name", descending=[True, False])
    name = safe(names["name"][0] or "")
    # If the statement names the largest part, the place is that of its longest event.
    of_part = main_rows.filter(pl.col("name").eq_missing(names["name"][0])) if "{name}" in rule.what else main_rows
    longest = of_part.sort(length, "event_id", descending=[True, False]).row(0, named=True)
    advice = Advice(
        rule.name,
        f"{rule.what[:1].upper()}{rule.what[1:]}: {times(main_rows.height)}, {duration(time)}".replace("{name}", name),
        _where(trace, rank, longest["event_id"]),
        rule.do,
        main_rows.height,
        time,
        gain,
        100 * gain / step_ns,
        longest["event_id"],
        rule.scenario,
    )
    return advice, rows


_COLUMNS = {
    "rule": pl.String,
    "what": pl.String,
    "where": pl.String,
    "do": pl.String,
    "count": pl.Int64,
    "time_ns": pl.Int64,
    "gain_ns": pl.Int64,
    "gain_pct": pl.Float64,
    "event_id": pl.Int64,
}


def without(typical: TypicalStep, rows: pl.DataFrame) -> int:
    """Step time with a rule's findings reduced by `saved_ns`: GPU work and thread time; waits for the GPU disappear."""
    edges = typical.replay.edges
    work = rows.filter(effect="work").group_by("event_id").agg(pl.col("saved_ns").max())
    saved_ns = edges.join(work, on="event_id", how="left", maintain_order="left")["saved_ns"].fill_null(0)
    saved_ns = pl.select(pl.when(edges["kind"] == "work").then(saved_ns).otherwise(0)).to_series()
    on_threads = within(edges, rows.filter(effect="host"), "saved_ns")
    saved_ns += pl.select(pl.when(edges.select(_IS_HOST).to_series()).then(on_threads).otherwise(0)).to_series()
    waits = rows.filter(effect="wait")["event_id"]
    is_gone = (pl.col("kind") == "return") & pl.col("event_id").is_in(waits.implode())
    return typical.replay.changed_ns(pl.max_horizontal(pl.col("weight_ns") - pl.lit(saved_ns), 0), is_gone)


def _where(trace: Trace, rank: int, event: int) -> str:
    location = trace.query("event_place", rank=rank, event=event)
    if location.is_empty():
        return ""
    row = location.row(0, named=True)
    source = f"{row['source']} in {row['function']}" if row["source"] and row["function"] else row["source"]
    parts = [row["module_path"], source]
    return ", ".join([*(safe(part) for part in parts if part), _event(event)])


def _event(event: int) -> str:
    return f"event {event}"
