"""Assemble the report: run the queries and choose the sections."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import polars as pl

from hotline_analysis.answers import bottleneck
from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.balance import gpu_balance
from hotline_analysis.answers.efficiency import missing_for_flop
from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.recorded import has_gpu_work, unknown_tracks
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.answers.slowest import slowest_op, slowest_place_found
from hotline_analysis.answers.waiting import waiting_noun
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.reports.content import A_STEP, THE_RECORDING, Section
from hotline_analysis.reports.document import Report
from hotline_analysis.reports.part import part_report
from hotline_analysis.reports.screen import first_screen
from hotline_analysis.reports.sections import resources, tables, unknown
from hotline_analysis.reports.sections.actions import first_actions
from hotline_analysis.reports.sections.cards import cards, head_parts, phase_times, says_again
from hotline_analysis.reports.sections.caveats import caveat_sentences
from hotline_analysis.reports.sections.coverage import compiled_line, coverage_line, coverage_section, doubts_line
from hotline_analysis.reports.sections.device import device_section, gpus_section
from hotline_analysis.reports.sections.efficiency import peak_section, roofline_section
from hotline_analysis.reports.sections.head import facts, headline, named_place
from hotline_analysis.reports.sections.help import apart, doubtful, help_section, with_predictions, worth_doing
from hotline_analysis.reports.sections.kinds import kinds_section
from hotline_analysis.reports.sections.links import link_section
from hotline_analysis.reports.sections.places import places_section
from hotline_analysis.reports.sections.recapture import recapture
from hotline_analysis.reports.sections.sentence import first_sentence
from hotline_analysis.reports.sections.stragglers import pipeline_section, straggler_section
from hotline_analysis.reports.sections.subject import subject
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.together import Together
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import one_of, safe
from hotline_analysis.text.source_lines import Lines
from hotline_analysis.vocabulary import PHASES, Phase

# Sections of the report on a large job. The other sections are in the report on a single rank.
_OF_A_JOB = ("ranks", "links", "stragglers", "devices", "device", "phases", "modules")
_ADVICE_OF_A_JOB = 3
# Sections of which the first screen in a terminal shows a part.
_ON_SCREEN = ("places", "step_kinds", "ops")
_ON_SCREEN_WITHOUT_OPTIMIZER = (*_ON_SCREEN, "module_types", "modules")


def report(
    trace: Trace,
    rank: int | None = None,
    *,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    source_lines: bool = True,
) -> Report:
    """Report on a trace: the limit of a step, advice, answers to the three questions, and tables.

    With a `step`, `phase` or `module` (a path; submodules are included), the report covers this part of the run and has
    only the tables available for a part. Verdicts and advice are only in the report on the whole run.

    With several ranks, the report covers one rank (`rank`, or the lowest), and a table compares all ranks. With over
    eight ranks and without `rank`, the report is short: tables of the job, a few tables of the lowest rank, and at most
    three pieces of advice. With `source_lines`, places in the code show the source line if this Python could import the
    file. Raises `QueryParameterError` if the trace does not have the rank, step, phase or module.
    """
    check_scope(trace, {"rank": rank, "step": step, "module": module})
    chosen = trace.ranks[0] if rank is None else rank
    if (step, phase, module) != (None, None, None):
        check_scope(trace, {"rank": chosen, "step": step, "module": module})
        if phase not in (None, *PHASES):
            raise QueryParameterError(f"phase must be {one_of(PHASES)}, not {phase!r}")
        return part_report(trace, chosen, step, phase, module, Lines() if source_lines else None)
    return _report(trace, rank, Lines() if source_lines else None)


def screen_text(trace: Trace, rank: int | None = None, *, source_lines: bool = True, **layout: Any) -> str:
    """The text of `report(trace, rank).to_screen(**layout)`, in less time: other sections are left out.

    Raises `QueryParameterError` if the trace does not have the rank.
    """
    check_scope(trace, {"rank": rank})
    return _report(trace, rank, Lines() if source_lines else None, only_screen=True).to_screen(**layout)


def _report(trace: Trace, rank: int | None, lines: Lines | None, *, only_screen: bool = False) -> Report:
    """The report on the whole run. With `only_screen`, the parts that `to_screen` does not show are empty."""
    chosen = trace.ranks[0] if rank is None else rank
    info = trace.of(chosen).sql("from rank_info where rank = $rank", rank=chosen).row(0, named=True)
    has_gpu = has_gpu_work(trace, rank=chosen)
    with Together(trace) as together:
        worth_asked = together.ask(worth_doing, trace, chosen)  # started first, because slowest
        bound = bottleneck.gpu_or_cpu_bound(trace, rank=chosen)
        is_run = bound.answer != "no-run"
        optimizer = bottleneck.optimizer_bottleneck(trace, rank=chosen)
        ops = slowest_op(trace, chosen, tables.ROWS)
        # If Python or data loading bounds the step, the time is outside ops: name a place in the code instead.
        slowest = slowest_place_found(trace, chosen, bound) or ops
        balance = gpu_balance(trace, rank=chosen)
        shares_work = balance.answer not in ("no-gpu", "one-gpu")
        steps = answers.steps(trace, rank=chosen)
        cover = None if only_screen else answers.coverage(trace, rank=chosen)
        use = trace.query("device_use", rank=chosen)
        asks_flop = has_gpu and is_run and not missing_for_flop(trace, rank=chosen)
        has_memory = bool(info["profile_memory"])
        questions: dict[str, Callable[[], Section | None] | None] = {
            "ranks": partial(tables.ranks_section, trace) if len(trace.ranks) > 1 else None,
            "unknown_tracks": partial(unknown.tracks_section, trace, chosen),
            "unknown_spans": partial(unknown.spans_section, trace, chosen),
            "links": partial(link_section, trace),
            "stragglers": partial(straggler_section, trace),
            "pipeline": partial(pipeline_section, trace, chosen),
            "places": partial(places_section, trace, chosen, lines) if is_run else None,
            "devices": partial(gpus_section, balance) if shares_work else None,
            "device": partial(device_section, trace, chosen) if has_gpu else None,
            "peak_loss": partial(peak_section, trace, chosen) if asks_flop else None,
            "phases": partial(tables.phases_section, optimizer.evidence, has_gpu),
            "step_kinds": partial(kinds_section, trace, chosen),
            "steps": partial(tables.steps_section, steps, use, has_gpu),
            "module_types": partial(tables.module_types_section, trace, chosen, has_gpu),
            "modules": partial(tables.modules_section, trace, chosen, has_gpu, cover=cover, steps=steps),
            "ops": partial(tables.ops_section, ops.evidence, has_gpu),
            "kernels": partial(tables.kernels_section, trace, chosen) if has_gpu else None,
            "roofline": partial(roofline_section, trace, chosen) if asks_flop else None,
            "full_queue": partial(resources.full_queue, trace, chosen) if has_gpu else None,
            "memory_peak": partial(resources.memory_peak, trace, chosen) if has_memory else None,
            "recompute": partial(resources.recomputation, trace, chosen) if has_memory else None,
            "coverage": partial(coverage_section, cover) if has_gpu and cover is not None else None,
        }
        is_of_job = rank is None and len(trace.ranks) > tables.ROWS
        wanted: Collection[str] = _OF_A_JOB if is_of_job else questions.keys()
        if only_screen:
            on_screen = _ON_SCREEN_WITHOUT_OPTIMIZER if optimizer.answer == "no-optimizer" else _ON_SCREEN
            wanted = [name for name in wanted if name in on_screen]
        asked = [
            together.ask(question) for name, question in questions.items() if question is not None and name in wanted
        ]
        advice = find_advice(trace, chosen) if is_run else []
        sections = [each.result() for each in asked]
        worth = worth_asked.result() if is_run else None
    unprofiled, worth = apart(worth, "no_profiler")
    advice = with_predictions(advice, worth)
    may_help = doubtful(advice)
    sections = [help_section(worth, has_gpu, may_help), *sections]
    advice = [each for each in advice if each not in may_help][: _ADVICE_OF_A_JOB if is_of_job else None]
    loop = step_loop(trace, chosen)
    actions = first_actions(trace, chosen, advice, worth, loop)
    whole = A_STEP if loop is None or loop.loops else THE_RECORDING
    times = phase_times(trace, chosen) if is_run else []
    sentence, symptom = first_sentence(trace, chosen, bound, optimizer, ops, balance, actions, loop, times)
    other_slowest = ops if says_again(slowest, symptom) else slowest
    frames = {section.name: section.rows for section in sections if section is not None}
    modules = frames.get("module_types", frames.get("modules"))
    caveats = caveat_sentences(trace, chosen, info, loop, bound.evidence, use.filter(scope="run"), unprofiled)
    name = safe(info["file"])
    about = facts(trace, info, steps, has_gpu, loop)
    return Report(
        title=name if len(trace.ranks) == 1 else f"{name} (rank {chosen} of {len(trace.ranks)} ranks)",
        facts=about,
        headline=""
        if only_screen
        else headline(
            bound,
            named_place(trace, chosen, bound, optimizer.evidence),
            info,
            waiting=waiting_noun(trace, chosen),
            balance=balance,
        ),
        # Do not repeat the headline's statement.
        caveats=[text for text in caveats if text != bound.statement],
        advice=advice,
        findings=[bound, *([balance] if shares_work else []), optimizer, slowest],
        sections=[section for section in sections if section is not None and not section.rows.is_empty()],
        coverage="" if cover is None else _coverage(trace, chosen, cover, has_gpu),
        recapture=[] if cover is None else recapture(trace, info, steps, cover),
        warnings=[safe(text) for text in trace.manifest["warnings"]],
        subject=subject(trace, chosen, steps, about),
        rank=chosen,
        finding_queries=[
            "gpu_or_cpu_bound",
            *(["gpu_balance"] if shares_work else []),
            "optimizer_bottleneck",
            "slowest_ops" if slowest is ops else "slowest_places",
        ],
        sentence=sentence,
        head=head_parts(trace, chosen, about, loop),
        cards=cards(bound, symptom, balance, optimizer, other_slowest, times, modules, whole),
        actions=actions,
        phase_times=times,
        whole=whole,
        screen=first_screen(
            trace,
            chosen,
            info,
            loop=loop,
            bound=bound,
            advice=advice,
            actions=actions,
            phases=times,
            symptom=symptom,
            unprofiled=unprofiled,
            caveats=len(caveats),
        ),
    )


def _coverage(trace: Trace, rank: int, cover: pl.DataFrame, has_gpu: bool) -> str:
    is_unknown = cover.is_empty() and not unknown_tracks(trace, rank).is_empty()
    doubts = doubts_line(answers.doubtful_modules(trace, rank=rank), has_gpu)
    compiled = compiled_line(trace.query("compiled_regions", rank=rank), has_gpu)
    return ("" if is_unknown else coverage_line(cover)) + doubts + compiled
