"""Puts the report together: asks the questions and picks what to show."""

from __future__ import annotations

from hotline_analysis.answers import bottleneck
from hotline_analysis.answers import generated as answers
from hotline_analysis.answers.limits import typical_step
from hotline_analysis.answers.recorded import has_gpu_work
from hotline_analysis.answers.rules import find_advice
from hotline_analysis.answers.slowest import slowest_op
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.reports.document import Report
from hotline_analysis.reports.part import part_report
from hotline_analysis.reports.sections import resources, tables
from hotline_analysis.reports.sections.caveats import caveat_sentences
from hotline_analysis.reports.sections.coverage import compiled_line, coverage_line, coverage_section, doubts_line
from hotline_analysis.reports.sections.device import device_section
from hotline_analysis.reports.sections.efficiency import efficiency_sections
from hotline_analysis.reports.sections.head import facts, headline
from hotline_analysis.reports.sections.help import apart, help_section, with_predictions, worth_doing
from hotline_analysis.reports.sections.links import link_section
from hotline_analysis.reports.sections.recapture import recapture
from hotline_analysis.reports.sections.stragglers import straggler_section
from hotline_analysis.reports.sections.subject import subject
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import one_of, safe
from hotline_analysis.text.source_lines import Lines
from hotline_analysis.vocabulary import PHASES, Phase

# Sections of the report about a large job. Those of one rank fill a page, and are in its own report.
_OF_A_JOB = ("help", "ranks", "links", "stragglers", "device", "phases", "modules")
_ADVICE_OF_A_JOB = 3


def report(
    trace: Trace,
    rank: int | None = None,
    *,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    source_lines: bool = True,
) -> Report:
    """Report on a trace: what limits a step, what to do about it, the three questions, and tables.

    With a `step`, `phase` or `module` (a path, with the modules in it), it is about what happens there, and has the
    tables that can be told apart so; verdicts and advice are about the run.

    With several ranks it is about one of them: `rank`, or the lowest; a table compares all. Of more than a few, without
    `rank`, it is short, and has of one rank only what stands for all. With `source_lines`, places
    in the code show their line if this python could import the file. Raises `QueryParameterError` for a rank, step,
    phase or module that the trace does not have.
    """
    check_scope(trace, {"rank": rank, "step": step, "module": module})
    chosen = trace.ranks[0] if rank is None else rank
    if (step, phase, module) != (None, None, None):
        check_scope(trace, {"rank": chosen, "step": step, "module": module})
        if phase not in (None, *PHASES):
            raise QueryParameterError(f"phase must be {one_of(PHASES)}, not {phase!r}")
        return part_report(trace, chosen, step, phase, module, Lines() if source_lines else None)
    info = trace.of(chosen).sql("from rank_info where rank = $rank", rank=chosen).row(0, named=True)
    has_gpu = has_gpu_work(trace, rank=chosen)
    bound = bottleneck.gpu_or_cpu_bound(trace, rank=chosen)
    is_run = bound.answer != "no-run"
    optimizer = bottleneck.optimizer_bottleneck(trace, rank=chosen)
    slowest = slowest_op(trace, chosen, tables.ROWS)
    steps = answers.steps(trace, rank=chosen)
    cover = answers.coverage(trace, rank=chosen)
    typical = typical_step(trace, chosen)
    use = trace.query("device_use", rank=chosen)
    run = use.filter(scope="run")
    efficiency = [*(efficiency_sections(trace, chosen) if has_gpu and is_run else []), None, None]
    worth = worth_doing(trace, chosen) if is_run else None
    unprofiled, worth = apart(worth, "no_profiler")
    caveats = caveat_sentences(trace, chosen, info, typical, bound.evidence, run, unprofiled)
    advice = with_predictions(find_advice(trace, chosen), worth) if is_run else []
    sections = [
        help_section(worth, has_gpu),
        tables.ranks_section(trace) if len(trace.ranks) > 1 else None,
        link_section(trace),
        straggler_section(trace),
        device_section(trace, chosen) if has_gpu else None,
        efficiency[0],
        tables.phases_section(optimizer.evidence, has_gpu),
        tables.steps_section(steps, use, has_gpu),
        tables.module_types_section(trace, chosen, has_gpu),
        tables.modules_section(trace, chosen, has_gpu),
        tables.sources_section(trace, chosen, has_gpu, Lines() if source_lines else None),
        tables.ops_section(slowest.evidence, has_gpu),
        tables.kernels_section(trace, chosen) if has_gpu else None,
        efficiency[1],
        resources.full_queue(trace, chosen) if has_gpu else None,
        resources.memory_peak(trace, chosen) if info["profile_memory"] else None,
        resources.recomputation(trace, chosen) if info["profile_memory"] else None,
        coverage_section(cover) if has_gpu else None,
    ]
    if rank is None and len(trace.ranks) > tables.ROWS:
        sections = [section for section in sections if section is not None and section.name in _OF_A_JOB]
        advice = advice[:_ADVICE_OF_A_JOB]
    name = safe(info["file"])
    about = facts(trace, info, steps, has_gpu, typical)
    return Report(
        title=name if len(trace.ranks) == 1 else f"{name} (rank {chosen} of {len(trace.ranks)} ranks)",
        facts=about,
        headline=headline(bound, optimizer.evidence, damaged=bool(info["damage"])),
        # What the headline says already needs no second place.
        caveats=[text for text in caveats if text != bound.statement],
        advice=advice,
        findings=[bound, optimizer, slowest],
        sections=[section for section in sections if section is not None and not section.rows.is_empty()],
        coverage=coverage_line(cover)
        + doubts_line(answers.doubtful_modules(trace, rank=chosen), has_gpu)
        + compiled_line(trace.query("compiled_regions", rank=chosen), has_gpu),
        recapture=recapture(trace, info, steps, cover),
        warnings=[safe(text) for text in trace.manifest["warnings"]],
        subject=subject(trace, chosen, steps, about),
        rank=chosen,
        finding_queries=["gpu_or_cpu_bound", "optimizer_bottleneck", "slowest_ops"],
    )
