"""The first screen of a report: one sentence, three answers, what to do first, and no two numbers that contradict."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.remedies import REMEDIES, code_for
from hotline_analysis.answers.rules import SLOWEST, UNNAMED, Advice
from hotline_analysis.catalog import queries
from hotline_analysis.charts.multi_scale import timeline
from hotline_analysis.reports import Report
from hotline_analysis.reports.build import screen_text
from hotline_analysis.reports.content import Action, Field, PhaseTime, Section, Sentence
from hotline_analysis.reports.renderers.screen import _phases
from hotline_analysis.reports.screen import _in_phases, _of_phases
from hotline_analysis.reports.sections import actions
from hotline_analysis.reports.sections.sentence import Symptom, _computing
from tests.command import hotline
from tests.real_traces import opened
from tests.trace_builder import TraceBuilder

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.screen.txt"))
MOST_LINES, WIDTH = 45, 80
REAL = [
    *(f"verdicts/{name}_mi300" for name in ("normalization", "owlv2", "qwen", "sglang_graph_capture")),
    *("verdicts/timesformer_h100", "training/ddp_a100_annotated", "inference/bert_small_h100", "robustness/cpu_only"),
]
NEVER = (
    "record record_shapes",
    "Above all,",
    "The longest phase is other",
    "without it, a step would be as long",
    "in empty",
    "less its output",
    "What could be computed again",
    "says nothing",
    "slower than that",
    "record_param_comms",
    "4 or more",
    "in all.",
    "event -1",
)
"""Phrases that readers stumbled over."""


def _ns(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


def check(screen: str) -> None:
    """Size, the last line, and each number of the step against the others."""
    lines = screen.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[-1].startswith("More: ")
    text = " ".join(screen.split())
    for phrase in NEVER:
        assert phrase not in text, phrase
    assert not re.search(r"\bevent \d", text)
    now = set(re.findall(r"([\d.,]+ [nµm]?s) →", text))
    assert len(now) <= 1
    said = re.search(r"would take ([\d.,]+ [nµm]?s) instead of ([\d.,]+ [nµm]?s)", text)
    mean = re.search(r"steps? of ([\d.,]+ [nµm]?s)", text)
    if mean:
        assert now <= {mean[1]}
        assert said is None or said[2] == mean[1]
    share = re.search(r"Your .* takes (\d+) % of the time\. Without that", text)
    if said and share:
        without, step = (_ns(said[each]) for each in (1, 2))
        assert int(share[1]) == pytest.approx(100 * (step - without) / step, abs=1)
    assert len(re.findall(r"^  \d\. ", screen, re.MULTILINE)) <= 3


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.name)
def test_golden_screens(file: Path) -> None:
    check(file.read_text(encoding="utf-8"))


def test_the_demo_in_a_pipe() -> None:
    screen = hotline("demo", columns=None)
    check(screen)
    # 43.5 % of the time are busy.
    assert "idle for 57 % of the time, because the CPU launches kernels too slowly." in " ".join(screen.split())
    assert screen.splitlines()[-1] == "More: hotline demo --all; for a trace of your own: hotline report TRACE"


@pytest.mark.traces
@pytest.mark.sampled
@pytest.mark.parametrize("name", REAL)
def test_screens_of_real_traces(name: str) -> None:
    trace = opened(f"{name}.json.gz")
    screen = ha.report(trace, source_lines=False).to_screen(width=WIDTH)
    check(screen)
    assert screen_text(trace, source_lines=False, width=WIDTH) == screen


@pytest.mark.parametrize("rank", [None, 2])
def test_the_screen_alone_is_that_of_the_whole_report(rank: int | None, tmp_path: Path) -> None:
    """Of a job with so many ranks that its report is short, and of one of these ranks; a model without optimizer."""
    for number in range(9):
        trace = TraceBuilder(rank=number)
        for step in range(3):
            start = 1000 * step
            trace.step(step, start, start + 1000).module("Net", 0, start, start + 900)
            for part, name in enumerate(("Linear", "Linear", "ReLU")):
                at = start + 300 * part
                trace.module(name, part, at, at + 250).op("aten::mm", at, at + 200).launches("gemm", at + 50, at + 260)
        trace.write(tmp_path / f"{number}.json")
    with ha.load(tmp_path) as job:
        screen = ha.report(job, rank).to_screen(width=WIDTH)
        assert screen_text(job, rank, width=WIDTH) == screen
    assert "Slowest module" in screen


def test_ops_alone_are_computing(tmp_path: Path) -> None:
    """Ops without a module, step or stack around them, as `profile()` around a few lines records: 90 of 100 us."""
    trace = TraceBuilder().op("aten::conv2d", 0, 60).op("aten::relu", 60, 80).op("aten::mm", 90, 100)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "The CPU computes for 90 % of the time, most of it in conv2d." in screen
    assert "conv2d 1 60.0 µs 67 %" in " ".join(screen.split())
    assert "without a name" not in screen
    assert "Phases" not in screen
    (strip,) = re.findall(r"CPU  (\S+)", screen)
    # Ops run in nine of ten columns.
    assert strip.count("x") == pytest.approx(0.9 * len(strip), abs=1)
    assert "x computes in ops" in screen


def test_a_file_with_only_the_mark_of_the_profiler(tmp_path: Path) -> None:
    """As written by a profiler whose schedule began its next cycle, or of a program that computes on other threads."""
    trace = TraceBuilder().complete("Trace", "PyTorch Profiler (0)", 0, 500)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "The file has no op, call or region of the program" in screen
    assert "on_trace_ready" in screen
    assert "CPU time" not in screen
    assert "No change is known" not in screen
    with ha.load(tmp_path / "trace.json") as opened:
        assert not ha.report(opened).recapture  # no `add ProfilerActivity.CPU`: the ops are on another thread
        assert timeline(opened).title == "trace.json"


def trained(count: int = 3, optimizer: str = "SGD") -> TraceBuilder:
    """Steps of 100 us: 30 us forward, 50 us backward, 4 us of python without a name, 16 us optimizer."""
    trace = TraceBuilder()
    for number in range(count):
        at = 100 * number
        trace.op("aten::conv2d", at, at + 30, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 30, at + 80, seq=number + 1)
        trace.annotation(f"Optimizer.step#{optimizer}.step", at + 84, at + 100).op("aten::add_", at + 84, at + 100)
    return trace


def test_python_that_takes_longer_than_the_ops_is_the_cause(tmp_path: Path) -> None:
    """A rollout: six times a model for 200 us and an environment for 1,200 us; then 1,600 us of backward and optimizer.

    Of 10,000 us, 7,200 have no event. Without stacks, the environment has no name.
    """
    trace = TraceBuilder()
    for number in range(3):
        at = 10_000 * number
        for turn in range(6):
            trace.op("aten::linear", at + 1400 * turn, at + 1400 * turn + 200, seq=10 * number + turn + 1)
        for turn in reversed(range(6)):
            start = at + 8400 + 200 * (5 - turn)
            node = "autograd::engine::evaluate_function: AddmmBackward0"
            trace.op(node, start, start + 200, seq=10 * number + turn + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 9600, at + 10_000).op("aten::add_", at + 9600, at + 10_000)
    screen = " ".join(hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH).split())
    assert "The CPU runs python between the ops for 72 % of the time." in screen
    assert "a step would take 2.80 ms instead of 10.0 ms" in screen
    assert "What takes the time? Python between ops" in screen
    assert "Name this time: record stacks" in screen


def test_a_region_around_all_the_computing_is_not_in_its_way(tmp_path: Path) -> None:
    """A benchmark: 400 us in the region of the warm-up and 600 us in the region that is measured, 940 us in ops."""
    trace = TraceBuilder().annotation("warmup", 0, 400).op("aten::conv2d", 10, 390)
    trace.annotation("benchmark", 400, 1000).op("aten::conv2d", 420, 980)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "The CPU computes for 94 % of the time, most of it in conv2d." in screen
    assert "Run this code less often" not in screen
    assert "Speed up the slowest place" not in screen
    assert re.search(r"benchmark +600 µs +60 % +region", screen)


def test_a_small_rest_is_not_the_slowest_place(tmp_path: Path) -> None:
    """Without modules and stacks, 4 of 100 us are between the phases. The ops have the other 96."""
    screen = hotline("report", str(trained().write(tmp_path / "trace.json")), columns=WIDTH)
    assert "Slowest places" not in screen
    assert re.search(r"Slowest ops +calls", screen)


def between_steps(seen: bool) -> TraceBuilder:
    """Steps of 10 ms: 8 ms between the optimizer and the model, in a function or without an event; then 2 ms of ops."""
    trace = TraceBuilder()
    if seen:
        trace.frame("train.py(1): main", 0, 40_000)
    for number in range(4):
        at = 10_000 * number
        if seen:
            trace.frame("data.py(3): read", at, at + 8000)
        trace.op("aten::conv2d", at + 8000, at + 8500, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 8500, at + 9500, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 9500, at + 10_000).op("aten::add_", at + 9500, at + 10_000)
    return trace


def test_bare_ops_show_no_loading(tmp_path: Path) -> None:
    """A checkpoint or a log would look the same: only the position before the model is known."""
    screen = hotline("report", str(between_steps(seen=False).write(tmp_path / "trace.json")), columns=WIDTH)
    text = " ".join(screen.split())
    # The first of the four steps begins with the first op, so the three others count.
    assert "For 80 % of the time, the CPU works between the steps, before the model: it probably loads data." in text
    assert "Python that the trace does not name, before the model: 8.00 ms" in text


def test_the_function_of_the_loop_is_not_all_its_own_code(tmp_path: Path) -> None:
    """`main` trains for 2,000 of 10,000 us, and writes a log for 8,000 in its own lines after the optimizer."""
    trace = TraceBuilder().frame("train.py(1): main", 0, 40_000)
    for number in range(4):
        at = 10_000 * number
        trace.step(number, at, at + 10_000).module("Net", 0, at, at + 500)
        trace.op("aten::conv2d", at, at + 500, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 500, at + 1500, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 1500, at + 2000).op("aten::add_", at + 1500, at + 2000)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "Your code in the loop of main (train.py:1) takes 80 % of the time." in " ".join(screen.split())
    assert "Your function" not in screen


def test_stacks_show_loading(tmp_path: Path) -> None:
    screen = hotline("report", str(between_steps(seen=True).write(tmp_path / "trace.json")), columns=WIDTH)
    assert "The CPU loads data for 80 % of the time, most of the time in read (data.py:3)." in " ".join(screen.split())
    assert "Name this time" not in screen


@pytest.mark.parametrize(("names", "code"), [(["SGD"], "torch.optim.SGD("), (["SGD", "Adam"], "torch.optim.AdamW(")])
def test_the_code_has_the_optimizer_of_the_program(names: list[str], code: str, tmp_path: Path) -> None:
    """Of several optimizers, none is chosen: the code is an example."""
    trace = TraceBuilder(rank=0)
    for number, name in enumerate(names):
        trace.annotation(f"Optimizer.step#{name}.step", 100 * number, 100 * number + 50)
    change = code_for(trace.load(tmp_path), 0, REMEDIES["cpu_optimizer_not_fused"].code)
    assert "".join(change.split()).startswith(f"optimizer={code}")


@pytest.mark.parametrize(
    ("is_compiled", "code"), [(False, "torch.compile(model)"), (True, "torch.compile(train_step)")]
)
def test_a_compiled_model_is_not_to_be_compiled(is_compiled: bool, code: str, tmp_path: Path) -> None:
    """The optimizer has python for 15 of 100 us, beside a model that is compiled or not."""
    trace = TraceBuilder()
    for number in range(3):
        at = 100 * number
        if is_compiled:
            trace.annotation("Torch-Compiled Region: 0/0", at, at + 30)
        trace.op("aten::conv2d", at, at + 30, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", at + 30, at + 80, seq=number + 1)
        trace.annotation("Optimizer.step#LBFGS.step", at + 80, at + 100).op("aten::add_", at + 90, at + 95)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "Run less python between ops" in screen
    assert code in screen


def test_without_steps_all_times_are_of_the_recording(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::conv2d", 0, 40, seq=1).op("aten::relu", 60, 80).op("aten::mm", 90, 100)
    screen = hotline("report", str(trace.write(tmp_path / "trace.json")), columns=WIDTH)
    assert "no steps marked" in screen
    assert "of a step" not in screen
    assert "tells more about 30.0 µs of the recording" in screen


@pytest.mark.parametrize(("most", "title"), [(3, "Largest phases of a step"), (5, "Phases of a step")])
def test_a_part_of_the_phases_is_called_so(most: int, title: str) -> None:
    """27, 51 and 12 % do not add up, so the title says that phases are missing."""
    times = phases(load_data=12, forward=27, loss=7, backward=51, optimizer=3)
    lines = [line.text for line in _phases(Times(times), WIDTH, most)]  # type: ignore[arg-type]
    assert lines[1].split("  ")[1] == title
    assert len(lines) == 2 + most


def test_phases_add_up_to_a_hundred(tmp_path: Path) -> None:
    with ha.load(Path(__file__).parent / "data/cnn_checkpoint.json.gz") as trace:
        report = ha.report(trace)
    assert sum(each.share_pct for each in report.phase_times) == 100
    step_ns = report.sentence.step_ns if report.sentence else 0
    assert step_ns
    # Without a GPU, the optimizer's share is that of the main thread, in the answer and in the table.
    (share,) = (each.share_pct for each in report.phase_times if each.phase == "optimizer")
    numbers = next(finding.numbers for finding in report.findings if "optimizer_pct" in finding.numbers)
    assert numbers["optimizer_pct"] == pytest.approx(share, abs=1)


def long_report() -> Report:
    """More of everything than a screen holds."""
    action = Action("Do " + "much " * 6, "word " * 60, "a/b.py:1", "do", "x = 1\n" * 4, "rule", 1, 10**9, 5 * 10**8)
    places = pl.DataFrame(
        {
            "name": ["p" * 99] * 9,
            "place": ["p" * 99] * 9,
            "named_by": ["function"] * 9,
            "module_count": [None] * 9,
            "source": ["s" * 99 + ".py:1"] * 9,
            "path_ns": [10**8] * 9,
            "path_pct": [10.0] * 9,
        }
    )
    return Report(
        "title",
        {"recorded": "shapes, " * 40, "damage": "much, " * 40},
        "headline",
        ["A caveat of many words that goes on and on and on, until it needs three lines of a terminal. More."] * 5,
        [],
        [],
        [Section("places", "Slowest places", "", [Field("name", "place", "name")], places)],
        "coverage",
        [],
        warnings=["w " * 99] * 5,
        sentence=Sentence("The GPU is idle. " * 20, "cause", 50.0, 10**9, 5 * 10**8),
        head=["model" * 9] * 9,
        actions=[replace(action, title=f"{action.title}{number}") for number in range(3)],
        phase_times=[PhaseTime(f"phase {number}", 10**8, 10, 10**7) for number in range(10)],
    )


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_screen_has_an_end_whatever_there_is_to_say(width: int) -> None:
    lines = long_report().to_screen(width=width).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= min(width, 100)
    assert "What to do first" in lines
    assert any(line.startswith("  Slowest places") for line in lines)


def test_what_the_warnings_and_the_job_say_stands_once() -> None:
    missing = "2 of 4 ranks are missing: 2, 3"
    report = replace(long_report(), facts={"missing": missing}, caveats=[], warnings=[missing])
    assert report.to_screen(width=80).count(missing) == 1


def test_the_count_and_the_time_stay_in_a_long_line() -> None:
    what = f"Kernels of index and embedding gradients that sort first, in {'n' * 70}: 43 times, 8.12 ms"
    report = long_report()
    screen = replace(report, actions=[replace(report.actions[0], what=what)]).to_screen(width=80)
    assert "43 times, 8.12 ms" in screen


def test_colour_is_for_terminals() -> None:
    plain, coloured = (long_report().to_screen(width=80, color=color) for color in (False, True))
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


ADVICE = Advice("read_backs", "calls", "Net, a.py:1, event 7", "Do it.", 1, 10, 40, 40.0, 7, scenario="no_sync")
WORTH = pl.DataFrame(
    {
        "scenario": ["no_sync"],
        "baseline_ns": [200],
        "predicted_ns": [160],
        "low_ns": [150],
        "high_ns": [230],
        "gain_low_ns": [20],
        "gain_high_ns": [44],
    }
)


class Loop:
    """A loop with a mean step of 100 ns."""

    mean_ns = 100
    loops = True


class Times:
    """A report with only the times of phases."""

    sentence = None
    whole = "a step"

    def __init__(self, phase_times: list[PhaseTime]) -> None:
        self.phase_times = phase_times


class Program:
    """The trace of a program without torch.compile."""

    def of(self, _rank: int) -> Program:
        return self

    def sql(self, _statement: str, **_given: int) -> pl.DataFrame:
        return pl.DataFrame({"found": [False]})


def chosen(*advice: Advice, worth: pl.DataFrame | None = WORTH) -> list[Action]:
    return actions.first_actions(Program(), 0, advice, worth, Loop())  # type: ignore[arg-type]


def test_an_action_has_the_predicted_step_and_its_range_without_a_loss() -> None:
    (action,) = chosen(ADVICE)
    # The prediction's steps take 200: 160, 150 and 230 of it are 80, 75 and 115 of 100, and at most the present step.
    assert (action.step_ns, action.after_ns, action.low_ns, action.high_ns) == (100, 80, 75, 100)
    assert action.change == "100 ns → 80 ns (75 ns to 100 ns)"
    assert action.where == "Net, a.py:1"


def test_an_action_without_a_prediction_has_the_least_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "applies", lambda *_: False)
    (action,) = chosen(ADVICE, worth=WORTH.clear())
    assert action.change == "100 ns → 60 ns at best"


def test_no_action_is_predicted_to_gain_nothing_and_none_occurs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "applies", lambda *_: True)
    assert chosen(ADVICE, worth=WORTH.clear()) == []
    other = replace(ADVICE, rule="explicit_synchronise")  # the same scenario
    fused = [
        replace(ADVICE, rule=rule, scenario="", gain_ns=15)
        for rule in ("tiny_kernels", "elementwise_chains", "user_stretch")
    ]
    titles = [action.title for action in chosen(ADVICE, other, *fused)]
    # Both kinds of kernels are fused by the same line of code.
    assert titles == [REMEDIES[rule].title for rule in ("read_backs", "tiny_kernels", "user_stretch")]


@pytest.mark.parametrize(
    ("gain", "first"),
    [
        (30, "tiny_kernels"),  # more than the 10 to 22 of 100 ns that the prediction promises
        (22, "read_backs"),  # as much as its best, and the replay without the cause gains less
    ],
)
def test_a_bound_comes_before_a_prediction_that_gains_less_at_best(gain: int, first: str) -> None:
    titles = [
        action.title for action in chosen(ADVICE, replace(ADVICE, rule="tiny_kernels", scenario="", gain_ns=gain))
    ]
    assert titles[0] == REMEDIES[first].title
    assert len(titles) == 2


def test_every_rule_has_a_title_of_a_few_words() -> None:
    assert set(REMEDIES) == {*(query.name for query in queries("advice")), SLOWEST, UNNAMED}
    for name, remedy in REMEDIES.items():
        assert 2 <= len(remedy.title.split()) <= 7, name
        assert len(remedy.title) <= 36, name


def test_a_change_that_only_tells_more_has_no_bar_and_no_predicted_step() -> None:
    unnamed = replace(ADVICE, rule=UNNAMED, scenario="", gain_ns=60)
    (action,) = chosen(unnamed)
    assert not action.gains
    assert action.change == "tells more about 60 ns of a step"
    report = replace(long_report(), actions=[action])
    screen = report.to_screen(width=100)
    assert "█" not in screen
    assert "→" not in screen
    assert "tells more about 60" in screen


def test_a_place_that_the_statement_names_stands_once() -> None:
    report = long_report()
    said = replace(report.actions[0], what="Writes in save (a/b.py:1): once, 5 ms", where="a/b.py:1 in save")
    for action, count in ((said, 1), (replace(said, where="a/c.py:2 in save"), 2)):
        screen = replace(report, actions=[action]).to_screen(width=80)
        assert screen.count("/b.py:1") + screen.count("/c.py:2") == count


def phases(**shares: int) -> list[PhaseTime]:
    return [PhaseTime(name, share, share, 0) for name, share in shares.items()]


def test_the_legend_of_a_cpu_has_the_cause_and_adds_up() -> None:
    times = phases(forward=10, backward=20, other=69, loss=1)
    place = Symptom("", "save takes", 60.4, "place", part="save", phase="other")
    found = [(part.words, part.share, part.is_hot) for part in _of_phases(times, "", place)]
    # 60 of the 69 % of other are the place's; what is under 2 % is the rest.
    rest = [("backward", 20, False), ("forward", 10, False), ("other", 9, False), ("the rest", 1, False)]
    assert found == [("save", 60, True), *rest]
    # A wait has no phase: it is taken from the largest phases.
    wait = Symptom("", "waits", 75.0, "other_ranks")
    parts = _of_phases(times, "other_ranks", wait)
    assert [(part.words, part.share) for part in parts if part.is_hot] == [("waits for other ranks", 75)]
    assert sum(part.share for part in parts) == 100
    # A phase is its own part.
    parts = _of_phases(phases(load_data=66, forward=34), "load_data", Symptom("", "loads data", 66.0, "load_data"))
    assert [(part.words, part.share, part.is_hot) for part in parts] == [
        ("load data", 66, True),
        ("forward", 34, False),
    ]


@pytest.mark.parametrize(("most", "words"), [(56.4, "for 56 %"), (96.8, "for at least 56 %")])
def test_a_busy_share_that_may_be_larger_is_a_bound(most: float, words: str) -> None:
    def found(answer: str, **numbers: float) -> Finding:
        return Finding("", answer, "", "", {}, pl.DataFrame(), numbers)

    bound = found("gpu", gpu_busy_pct=56.1, gpu_busy_most_pct=most)
    symptom = _computing(bound, found("mm"), found("one-gpu"))
    assert symptom.text == f"The GPU is busy {words} of the time."


def test_one_place_in_two_phases_is_not_counted_by_phase(tmp_path: Path) -> None:
    """“1 place: forward 1, load data 1” would be two numbers for one thing."""
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    made = TraceBuilder(rank=0).step(0, 0, 100).annotation(loading, 0, 50).annotation("## forward ##", 50, 100)
    made.op("aten::mm", 60, 90)
    pieces = pl.DataFrame({"event_id": [made.ids("aten::mm")[0], made.ids(loading)[0]]})
    with made.load(tmp_path) as trace:
        assert _in_phases(trace, 0, pieces, is_one_place=False) == ": forward 1, load data 1"
        assert _in_phases(trace, 0, pieces, is_one_place=True) == ""
        assert _in_phases(trace, 0, pieces[:1], is_one_place=True) == " in forward"
