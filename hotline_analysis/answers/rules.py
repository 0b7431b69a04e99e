"""What to do about a slow step: rules that find time spent for nothing, and how much shorter the step is without it.

Each rule is one query of `queries/advice`, which names its condition, its bound and its source. What a rule finds is
taken away from the dependency graphs of the typical steps of all kinds, and the steps are replayed: the difference is
its gain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.answers.limits import StepLoop, TypicalStep, step_loop
from hotline_analysis.answers.overlap import within
from hotline_analysis.answers.place_pieces import place_pieces
from hotline_analysis.answers.places import place_words
from hotline_analysis.answers.recorded import lacks_gpu_work, no_run
from hotline_analysis.answers.waiting import find_late_rank, late_wait, loop_waits_ns
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, percent, safe

LEAST_PCT = 2.0
"""A gain below this share of the step is not worth a line."""
_OFTEN = ("gpu_work", "host_activity")
"""Views that many rules read."""
_OF_ONE_RANK = ("unseen_rank",)
"""Rules about ranks whose files are not there: asked where the run has one."""
_OWN_DATA = ("loader_in_main_process", "loader_too_few_workers", "preprocessing_outside_loader")
"""Rules about what one rank loads: a rank that waits longer for the others than for its data gains nothing by them."""
_IS_HOST = pl.col("kind").is_in(["host", "handoff"])
_OF_USER = ("frame", "region", "sampled")
"""Kinds of places that the user named, or wrote."""
_PLACE_PCT = 5.0
"""A place with less of the step is no advice of its own."""
UNNAMED = "unnamed_time"
"""Name of the advice on time for which the trace has no region, function or module."""
SLOWEST = "slowest_place"
"""Name of the advice on the user's slowest place."""
_PYTHON = "python_overhead"
"""Name of the rule about python wherever it is."""
_NAME_IT = (
    'Record with_stack=True, or wrap the code in hotline_analysis.annotate("NAME"), so that the report names it. Such'
    " time is often logging, metrics, files or a copy to the CPU: do it every some steps, or in another thread."
)
_DO_LESS = "Make it faster, do it every some steps, or move it off the thread of the training loop."


@dataclass(frozen=True)
class Advice:
    """One thing that would make steps shorter.

    `what` says what was found in the step, `where` the module and the line of the user's code that most of it belongs
    to (empty where the trace does not tell), `do` what to do about it. `gain_ns` is how much shorter the step gets at
    most, by replaying it without what was found, and `gain_pct` that as a share of the step; gains of several rules do
    not add up where they find the same time. `event_id` is the one that takes longest. `scenario` is that of `whatif`
    which does what is advised (empty if none does), and `predicted_low_ns` and `predicted_high_ns` what a step gains by
    it, in a report that predicts it.
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
        """What is predicted for the advice, as a sentence; empty without a prediction."""
        if self.predicted_low_ns is None or self.predicted_high_ns is None:
            return ""
        between = f"{duration(self.predicted_low_ns)} to" if self.predicted_low_ns else "up to"
        between += f" {duration(self.predicted_high_ns)}"
        return f"Over all steps, the whole change is predicted to gain {between} a step ({self.scenario})."

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        shorter = f"the step is {percent(self.gain_pct)} shorter without it"
        return f"{self.what}{place}: {shorter}. {self.do} {self.predicted}".rstrip()


def find_advice(trace: Trace, rank: int | None = None, *, rules: Collection[str] | None = None) -> list[Advice]:
    """Ask the rules about the typical step of each kind of a rank (the lowest by default); the largest gain first.

    `rules` are the names of those to ask, all by default. There is no advice for a trace that does not record a run
    (`caveats`), or that lost its GPU work.
    """
    chosen = min(trace.ranks) if rank is None else rank
    loop = step_loop(trace, chosen)
    if loop is None or not loop.mean_ns or no_run(trace, chosen) or lacks_gpu_work(trace, chosen):
        return []
    found: dict[str, list[tuple[TypicalStep, Advice]]] = {}
    for kind in loop.kinds:
        for each in _of_kind(trace, chosen, kind, rules):
            found.setdefault(each.rule, []).append((kind, each))
    over_loop = [_over_loop(loop, parts) for parts in found.values()]
    waits = loop_waits_ns(trace, chosen) // loop.count
    over_loop = [each for each in over_loop if each.rule not in _OWN_DATA or each.gain_ns > waits]
    worth = [each for each in over_loop if each.gain_pct >= LEAST_PCT]
    worth = _with_places(worth, _of_places(trace, chosen, loop, worth, rules))
    worth.sort(key=lambda each: (-each.gain_ns, each.rule))
    return _with_late_rank(trace, chosen, loop, worth) if rules is None or "late_rank" in rules else worth


def _of_kind(trace: Trace, rank: int, kind: TypicalStep, rules: Collection[str] | None) -> list[Advice]:
    """The advice on the typical step of one kind."""
    if not kind.replay.period_ns:
        return []
    with trace.of_step(_OFTEN, rank, kind.step) as narrow:
        asked = [rule for rule in catalog.queries("advice") if rules is None or rule.name in rules]
        about_all = {rule.name for rule in asked if catalog.compares_ranks(rule.name)}
        if len(trace.ranks) == 1:  # nothing to compare, which takes longer to find out than most rules
            asked = [rule for rule in asked if rule.name not in about_all]
        else:
            asked = [rule for rule in asked if rule.name not in _OF_ONE_RANK]
        asked = _with_rows(narrow, asked)
        found = [_of_rule(trace if rule.name in about_all else narrow, rank, kind, rule) for rule in asked]
    return [_with_place(trace, rank, kind, *each) for each in found if each]


def _with_place(trace: Trace, rank: int, kind: TypicalStep, advice: Advice, rows: pl.DataFrame) -> Advice:
    """The advice with the user's function or region that has most of its time, where it has no place of its own."""
    on_threads = rows.filter(effect="host")
    pieces = place_pieces(trace, rank)
    if advice.where not in ("", _event(advice.event_id)) or on_threads.is_empty() or pieces.is_empty():
        return advice
    pieces = pieces.filter(pl.col("step_kind") == kind.kind, pl.col("end_ns") > pl.col("start_ns"))
    lengths = on_threads.select("track_id", "start_ns", "end_ns", length_ns=pl.col("end_ns") - pl.col("start_ns"))
    shared = pieces.with_columns(shared_ns=within(pieces, lengths.unique(), "length_ns"))
    places = shared.group_by("kind", "place", "own_source").agg(pl.col("shared_ns", "path_ns").sum())
    named = places.filter(pl.col("kind").is_in(_OF_USER)).sort("shared_ns", "place", descending=[True, False])
    if named.is_empty() or 2 * named["shared_ns"][0] < lengths.unique()["length_ns"].sum():
        return advice
    row = {**named.row(0, named=True), "source": named["own_source"][0], "phase": ""}
    return replace(advice, where=f"{place_words(row)}, {_event(advice.event_id)}")


def _of_places(
    trace: Trace, rank: int, loop: StepLoop, found: Sequence[Advice], rules: Collection[str] | None
) -> list[Advice]:
    """Advice on time without a name, and on the user's slowest place if it has more of the step than any rule found."""
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
    for row in parts.filter(kind="rest", phase="other").sort("path_ns", descending=True).iter_rows(named=True):
        if row["limit"] in ("python", "unrecorded") and (rules is None or UNNAMED in rules):
            own = on_threads.filter(kind="rest", place=row["place"], limit=row["limit"])
            what = f"Python that the trace does not name, {row['place']}"
            advice.append(_of_place(trace, rank, loop, own, UNNAMED, what, _NAME_IT))
    # Of a phase, python is the user's own; ops are what the phase is for.
    is_own = (pl.col("phase") == "other") | (pl.col("limit") == "python")
    of_user = pl.col("kind").is_in(_OF_USER) & is_own
    if rules is None or SLOWEST in rules:
        own = on_threads.filter(of_user).filter(~pl.col("is_loop"))
        top = own.group_by("kind", "place", "own_source").agg(pl.col("path_ns").sum())
        top = top.sort("path_ns", "place", descending=[True, False]).head(1)
        for kind, place, source, path_ns in top.iter_rows():
            most = max((each.gain_pct for each in found if each.rule != _PYTHON), default=0.0)
            if 100 * path_ns < max(_PLACE_PCT, most) * loop.mean_ns:
                continue
            own = own.filter(pl.col("kind") == kind, pl.col("place") == place)
            own = own.filter(pl.col("own_source").eq_missing(pl.lit(source)))
            words = place_words({"kind": kind, "place": place, "source": source, "phase": "other"})
            advice.append(_of_place(trace, rank, loop, own, SLOWEST, f"The slowest place is {words}", _DO_LESS))
    return [each for each in advice if each is not None and each.gain_pct >= LEAST_PCT]


def _with_places(found: Sequence[Advice], of_places: Sequence[Advice]) -> list[Advice]:
    """All advice, without what a rule says of python in general where one named place has most of it."""
    named = max((each.gain_ns for each in of_places if each.rule == SLOWEST), default=0)
    return [*(each for each in found if each.rule != _PYTHON or 2 * named < each.gain_ns), *of_places]


def _of_place(
    trace: Trace, rank: int, loop: StepLoop, pieces: pl.DataFrame, rule: str, what: str, do: str
) -> Advice | None:
    """Advice on the pieces of one place; None if steps are as long without them."""
    parts = []
    for kind in loop.kinds:
        own = pieces.filter(step_kind=kind.kind)
        if own.is_empty():
            continue
        rows = own.select(
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
        longest = rows.sort("saved_ns", "event_id", descending=[True, False]).row(0, named=True)
        time = int(rows["saved_ns"].sum())
        events = [*own["named_id"].drop_nulls().head(1).to_list(), longest["event_id"]]
        event: int | None = events[0]
        said = f"{what}: {rows.height:,} stretch{'es' if rows.height > 1 else ''}, {duration(time)} in all"
        where = _where(trace, rank, event) if event is not None else ""
        number = -1 if event is None else event
        pct = 100 * gain / kind.replay.period_ns
        parts.append((kind, Advice(rule, said, where, do, rows.height, time, gain, pct, number)))
    return _over_loop(loop, parts) if parts else None


def _over_loop(loop: StepLoop, parts: Sequence[tuple[TypicalStep, Advice]]) -> Advice:
    """One advice on the steps of several kinds as an advice on the loop; the kind that gains most gives its words."""
    gains = [kind.scale * each.gain_ns for kind, each in parts]
    _, most = parts[gains.index(max(gains))]
    gain = round(sum(gains) / loop.count)
    steps = sum(kind.count for kind, each in parts if 10 * each.gain_ns >= most.gain_ns)
    within = f" (a step; {steps:,} of {loop.count:,} steps)" if steps < loop.count else ""
    return replace(most, what=most.what + within, gain_ns=gain, gain_pct=100 * gain / loop.mean_ns)


def _with_late_rank(trace: Trace, rank: int, loop: StepLoop, advice: Sequence[Advice]) -> list[Advice]:
    """The advice with the rank that keeps the others waiting in front, and what that rank does."""
    late = find_late_rank(trace)
    if late is None:
        return list(advice)
    first = next((each for each in advice if each.rule == "late_rank"), None)
    if first is None and rank == late.rank:
        event, count, wait = late_wait(trace, rank, loop.typical.step)
        gain = min(late.step_wait_ns, loop.mean_ns)
        if count and 100 * gain >= LEAST_PCT * loop.mean_ns:
            what = f"Collectives to which this rank comes last, and the others wait for it: {count:,}, {duration(wait)}"
            share = 100 * gain / loop.mean_ns
            first = Advice("late_rank", f"{what} in all", "", late.remedy, count, wait, gain, share, event)
    if first is None:
        return list(advice)
    done = f"{late.cause} {late.remedy}".strip() or first.do
    return [replace(first, do=done), *(each for each in advice if each.rule != "late_rank")]


def _with_rows(trace: Trace, rules: Sequence[catalog.Query]) -> list[catalog.Query]:
    """The rules that can find something, since what they need (`Query.only_with`) has rows. One look tells of all."""
    sources = sorted({source for rule in rules for each in rule.only_with for source in each})
    if not sources:
        return list(rules)
    (has_rows,) = trace.sql(f"select {', '.join(f'exists (from {source})' for source in sources)}").rows()
    known = dict(zip(sources, has_rows, strict=True))
    return [rule for rule in rules if all(any(known[source] for source in each) for each in rule.only_with)]


def advice(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """What would make steps shorter, the largest gain first: what was found, where, what to do, and the gain at most.

    One row per rule that found something in the typical step of a kind (`step_kinds`), and gains 2 % of the loop:
    `rule`, `what`, `where`, `do`, the `count` of what was found and its `time_ns`, `gain_ns` by replaying the step
    without it, that as a share of the step, `gain_pct`, and `event_id`, the one that takes longest. Gains do not add up
    where rules find the same time. The rules are the files of `queries/advice`. `rank` is the lowest of the run by
    default.
    """
    check_scope(trace, {"rank": rank})
    found = [asdict(each) for each in find_advice(trace, rank)]
    return pl.DataFrame([{name: each[name] for name in _COLUMNS} for each in found], _COLUMNS)


def _of_rule(trace: Trace, rank: int, typical: TypicalStep, rule: catalog.Query) -> tuple[Advice, pl.DataFrame] | None:
    """The advice of a rule on a typical step, with the rows that the rule found; None if nothing is gained."""
    rows = trace.query(rule.name, rank=rank, step=typical.step)
    if rows.is_empty():
        return None
    whole = typical.replay.period_ns
    gain = whole - without(typical, rows)
    if gain <= 0:
        return None
    counted = rows.filter(effect="work") if (rows["effect"] == "work").any() else rows
    length = pl.col("end_ns") - pl.col("start_ns")
    time = int(counted.select(length.sum()).item())
    longest = counted.sort(length, "event_id", descending=[True, False]).row(0, named=True)
    names = counted.group_by("name").agg(length.sum().alias("time")).sort("time", "name", descending=[True, False])
    name = safe(names["name"][0] or "")
    advice = Advice(
        rule.name,
        f"{rule.what[:1].upper()}{rule.what[1:]}: {counted.height:,}, {duration(time)} in all".replace("{name}", name),
        _where(trace, rank, longest["event_id"]),
        rule.do,
        counted.height,
        time,
        gain,
        100 * gain / whole,
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
    """How long the step takes if what a rule found takes so much less: GPU work, time of threads, waits for the GPU."""
    edges = typical.replay.edges
    work = rows.filter(effect="work").group_by("event_id").agg(pl.col("saved_ns").max())
    saved = edges.join(work, on="event_id", how="left", maintain_order="left")["saved_ns"].fill_null(0)
    saved = pl.select(pl.when(edges["kind"] == "work").then(saved).otherwise(0)).to_series()
    on_threads = within(edges, rows.filter(effect="host"), "saved_ns")
    saved += pl.select(pl.when(edges.select(_IS_HOST).to_series()).then(on_threads).otherwise(0)).to_series()
    waits = rows.filter(effect="wait")["event_id"]
    gone = (pl.col("kind") == "return") & pl.col("event_id").is_in(waits.implode())
    return typical.replay.changed_ns(pl.max_horizontal(pl.col("weight_ns") - pl.lit(saved), 0), gone)


def _where(trace: Trace, rank: int, event: int) -> str:
    place = trace.query("event_place", rank=rank, event=event)
    if place.is_empty():
        return ""
    row = place.row(0, named=True)
    source = f"{row['source']} in {row['function']}" if row["source"] and row["function"] else row["source"]
    parts = [row["module_path"], source]
    return ", ".join([*(safe(part) for part in parts if part), _event(event)])


def _event(event: int) -> str:
    return f"event {event}"
