"""The places that a step waits for: what names a moment, what comes first, and that all adds up to the step."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.rules import Advice, find_advice
from hotline_analysis.capture.background import annotate_and_report
from hotline_analysis.database import install_macros
from tests.trace_builder import TraceBuilder

Rows = dict[tuple[str, str], tuple[str | None, int]]


def places(trace: Trace) -> Rows:
    """Kind and place, with the source and microseconds of the step."""
    rows = ha.slowest_places(trace)
    assert rows["path_ns"].sum() == rows["step_ns"][0]
    assert rows["path_pct"].sum() == pytest.approx(100)
    return {
        (kind, place): (source, ns // 1000)
        for kind, place, source, ns in rows.select("kind", "place", "source", "path_ns").iter_rows()
    }


def steps(add: str, length: int = 1000) -> TraceBuilder:
    """Three steps alike, each with forward, backward, the optimizer, and more between."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = number * length
        trace.step(number, at, at + length)
        if add == "frames":
            trace.frame("train.py(20): main", at, at + length)
            trace.frame("train.py(7): save_grid", at + 600, at + 950)
            trace.frame("torch/serialization.py(9): save", at + 610, at + 940)
        if add == "regions":
            trace.annotation("statistics", at + 600, at + 950)
        trace.op("aten::linear", at, at + 200, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 200, at + 400, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 400, at + 600).op("aten::add_", at + 410, at + 590)
    return trace


@pytest.mark.parametrize(("name", "is_region"), [("## optimizer ##", False), ("## optimizer state ##", True)])
def test_a_mark_of_a_whole_phase_is_no_region(name: str, is_region: bool, tmp_path: Path) -> None:
    """200 of each 1,000 us are in Optimizer.step, and all of it in the mark."""
    trace = TraceBuilder(rank=0)
    for at in (0, 1000, 2000):
        trace.step(at // 1000, at, at + 1000)
        trace.op("aten::linear", at, at + 800, seq=at)
        trace.annotation(name, at + 800, at + 1000)
        trace.annotation("Optimizer.step#SGD.step", at + 800, at + 1000).op("aten::add_", at + 810, at + 990)
    rows = places(trace.load(tmp_path))
    assert (("region", name) in rows) is is_region
    assert rows[("region", name) if is_region else ("phase", "the optimizer")][1] == 200


def test_a_function_of_the_user_has_its_own_time(tmp_path: Path) -> None:
    """Each step: forward 200, backward 200, optimizer 200, save_grid 350, and main the rest."""
    rows = places(steps("frames").load(tmp_path))
    assert rows["frame", "save_grid"] == ("train.py:7", 350)
    assert rows["phase", "the optimizer"] == ("train.py:20", 200)
    assert rows["phase", "backward"][1] == 200
    # The ops of forward are in no module, and main is the innermost function around them.
    assert rows["frame", "main"] == ("train.py:20", 250)
    assert len(rows) == 4


def test_a_region_has_its_own_time(tmp_path: Path) -> None:
    rows = places(steps("regions").load(tmp_path))
    assert rows["region", "statistics"] == (None, 350)
    assert rows["phase", "the optimizer"][1] == 200
    # PyTorch's own marks are no regions.
    assert {place for kind, place in rows if kind == "region"} == {"statistics"}


def test_views_of_regions_and_functions(tmp_path: Path) -> None:
    with steps("frames").load(tmp_path, "frames.json") as trace:
        found = trace.sql("select function, is_user from code_frame order by start_ns, depth limit 2").rows()
        assert found == [("main", True), ("save_grid", True)]
        pieces = trace.query("place_spans", rank=0, start_ns=0, end_ns=1_000_000)
        assert pieces.select("start_ns", "function", "function_holds_phases").rows()[:3] == [
            (0, "main", True),
            (600_000, "save_grid", False),
            (950_000, "main", True),
        ]
    with steps("regions").load(tmp_path, "regions.json") as trace:
        assert trace.sql("select name, start_ns from user_region order by all").rows() == [
            ("statistics", 1000 * at) for at in (600, 1600, 2600)
        ]


def test_time_without_a_name_has_the_names_of_its_neighbours(tmp_path: Path) -> None:
    rows = places(steps("nothing").load(tmp_path))
    assert rows["rest", "between Optimizer.step and the next forward"] == (None, 400)


def test_time_after_the_last_phase_has_the_name_of_the_first_phase_of_a_step(tmp_path: Path) -> None:
    """Five steps, which end with 598, 599, 200, 601 and 602 us after the optimizer: 520 on average."""
    trace, at = TraceBuilder(rank=0), 0
    for number, length in enumerate((1198, 1199, 1200, 1201, 1202)):
        done = at + (1000 if length == 1200 else 600)
        trace.step(number, at, at + length).op("aten::linear", at, at + 200, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 200, at + 400, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 400, done).op("aten::add_", at + 400, done)
        at += length
    rows = places(trace.load(tmp_path))
    assert [row for row in rows.items() if row[0][0] == "rest"] == [
        (("rest", "between Optimizer.step and the next forward"), (None, 520))
    ]


def test_the_innermost_of_region_function_and_module_counts(tmp_path: Path) -> None:
    """In 0..100: a region 0..90 around a module 10..60, around a function 20..40, around a region 30..35."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = number * 100
        trace.step(number, at, at + 100).annotation("outer", at, at + 90)
        trace.module("Net", 0, at + 10, at + 60).frame("net.py(5): forward", at + 20, at + 40)
        trace.annotation("inner", at + 30, at + 35).op("aten::mul", at + 31, at + 34)
    rows = places(trace.load(tmp_path))
    assert {name: us for name, (_, us) in rows.items()} == {
        ("region", "outer"): 40,
        ("module", "Net_0"): 30,
        ("frame", "forward"): 15,
        ("region", "inner"): 5,
        **{name: us for name, (_, us) in rows.items() if name[0] == "rest"},
    }
    assert rows["region", "inner"] == ("net.py:5", 5)
    assert sum(us for (kind, _), (_, us) in rows.items() if kind == "rest") == 10


def test_work_of_the_gpu_is_where_it_is_launched(tmp_path: Path) -> None:
    """A kernel of 900 us that a region launches; the thread goes on and waits at the end of the step."""
    trace = TraceBuilder(rank=0)
    for number in range(4):
        at = number * 1000
        trace.step(number, at, at + 1000).annotation("attention", at + 10, at + 40)
        trace.op("aten::mm", at + 15, at + 35).launches("gemm", at + 40, at + 940)
        trace.runtime("cudaDeviceSynchronize", at + 60, at + 945)
    rows = places(trace.load(tmp_path))
    assert rows["region", "attention"][1] >= 900


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install_macros(connection)
        yield connection


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        ("train.py", "user"),
        ("src/models/net.py", "user"),
        ("/home/someone/work/train.py", "user"),
        ("profile.py", "user"),
        ("statistics.py", "user"),
        ("/tmp/ipykernel_17/12345.py", "user"),
        ("backends/torch/net.py", "user"),
        ("src/python/train.py", "user"),
        ("/home/someone/python/train.py", "user"),
        ("/home/nvidia/train.py", "user"),
        ("torch/nn/modules/conv.py", "torch"),
        ("nvidia/dali/pipeline.py", "torch"),
        ("/home/someone/pytorch/torch/nn/modules/conv.py", "torch"),
        (r"C:\Python311\Lib\site-packages\torch\optim\adam.py", "torch"),
        ("/tmp/torchinductor_root/zk/c" + "a2" * 25 + "b.py", "torch"),
        (r"C:\Python311\Lib\site-packages\mine\net.py", "library"),
        (r"C:\Python311\Lib\threading.py", "standard"),
        ("python3.11/threading.py", "standard"),
        ("runpy.py", "standard"),
        ("logging/__init__.py", "standard"),
        ("/opt/env/lib/python3.12/site-packages/torch/optim/adam.py", "torch"),
        ("triton/runtime/jit.py", "torch"),
        ("/opt/env/lib/python3.12/site-packages/mine/net.py", "library"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "library"),
        ("transformers/trainer.py", "library"),
        ("PIL/Image.py", "library"),
        ("hotline_analysis/capture/region.py", "library"),
        ("threading.py", "standard"),
        ("json/encoder.py", "standard"),
        ("/usr/lib/python3.11/contextlib.py", "standard"),
        ("<frozen os>", "standard"),
        ("<string>", "standard"),
    ],
)
def test_whose_code_a_file_is(file: str, origin: str, database: duckdb.DuckDBPyConnection) -> None:
    assert database.execute("select code_origin(?)", [file]).fetchall() == [(origin,)]


def test_code_of_libraries_is_the_users_where_there_is_no_other(tmp_path: Path) -> None:
    alone = TraceBuilder(rank=0).step(0, 0, 100).frame("vllm/engine.py(3): step", 1, 90).op("aten::mm", 10, 20)
    alone.frame("transformers/trainer.py(5): train", 30, 80)
    found = "select function from python_function where is_user order by all"
    with alone.load(tmp_path, "alone.json") as trace:
        assert trace.sql(found)["function"].to_list() == ["step"]
    library = TraceBuilder(rank=0).step(0, 0, 100).frame("transformers/trainer.py(5): train", 30, 80)
    with library.load(tmp_path, "library.json") as trace:
        assert trace.sql(found)["function"].to_list() == ["train"]


# --- programs whose bottleneck was planted, and timed with a stopwatch ---------------------------------------------


def recorded(name: str) -> Path:
    folder = os.environ.get("HOTLINE_TRACES")
    file = Path(folder or "", "..", "cases", "programs", f"{name}.json.gz")
    if not folder or not file.exists():
        pytest.skip("HOTLINE_TRACES has no recorded programs beside it")
    return file


def test_with_stacks_the_function_that_writes_files_is_named() -> None:
    """Its frames in the trace: `save_grid` takes 1,297 of 1,452 ms; the stopwatch says 92 % of a step."""
    with ha.load(recorded("p3_stack")) as trace:
        first = ha.slowest_places(trace).row(0, named=True)
        assert (first["kind"], first["place"], first["source"]) == ("frame", "save_grid", "p3_gan_stack.py:7")
        (inside,) = trace.sql(
            "select 100 * sum(dur_ns) / (select sum(end_ns - start_ns) from step) from event"
            " where ends_with(name, ': save_grid')"
        ).row(0)
        assert first["path_pct"] == pytest.approx(inside, rel=0.01)
        report = ha.report(trace)
        assert "save_grid (p3_gan_stack.py:7)" in report.headline
        assert report.findings[2].question == "Which place is slowest?"


def test_without_stacks_the_neighbours_name_the_stretch() -> None:
    """The stopwatch: writing takes 92 % of a step."""
    with ha.load(recorded("p3")) as trace:
        first = ha.slowest_places(trace).row(0, named=True)
        assert (first["kind"], first["place"]) == ("rest", "between Optimizer.step and the next batch")
        assert first["path_pct"] == pytest.approx(92, abs=3)
        assert "between Optimizer.step and the next batch" in ha.report(trace).headline


def test_a_region_around_statistics_is_named() -> None:
    """The region's own events, as a share of all steps."""
    with ha.load(recorded("v4_ann")) as trace:
        regions = ha.slowest_places(trace).filter(kind="region")
        assert regions["place"].to_list() == ["gradient statistics"]
        (inside,) = trace.sql(
            "select 100 * sum(dur_ns) / (select sum(end_ns - start_ns) from step) from event"
            " where name = 'gradient statistics'"
        ).row(0)
        assert regions["path_pct"][0] == pytest.approx(inside, rel=0.02)


def test_loading_is_the_slowest_place_of_a_slow_dataset() -> None:
    """The stopwatch: 58 to 67 % of a step, and more with the profiler on."""
    with ha.load(recorded("p1")) as trace:
        first = ha.slowest_places(trace).row(0, named=True)
        assert (first["kind"], first["place"]) == ("phase", "loading data")
        assert 58 <= first["path_pct"] <= 80


# --- what to do about a place ----------------------------------------------------------------------------------------


def advised(trace: Trace) -> dict[str, Advice]:
    return {each.rule: each for each in find_advice(trace)}


def test_time_without_a_name_is_advised_to_be_named(tmp_path: Path) -> None:
    """Each step of 1,000 us: forward, backward and the optimizer take 600, and nothing tells what the rest is."""
    found = advised(steps("nothing").load(tmp_path))
    assert "slowest_place" not in found
    assert found["unnamed_time"].gain_pct == pytest.approx(40, abs=1)
    assert "between Optimizer.step and the next" in found["unnamed_time"].what
    assert "with_stack=True" in found["unnamed_time"].do
    assert "annotate" in found["unnamed_time"].do


def test_time_without_a_name_despite_stacks_is_advised_to_be_annotated(tmp_path: Path) -> None:
    """400 of 1,000 us of each step are in no function of the user; stacks are recorded already."""
    trace = steps("nothing").frame("torch/nn/modules/module.py(1501): _call_impl", 0, 200)
    with trace.load(tmp_path) as loaded:
        advice = advised(loaded)["unnamed_time"]
        assert "with_stack" not in advice.do
        assert advice.where.startswith("event ")  # an event next to the time says nothing about its place
        (action,) = (each for each in ha.report(loaded).actions if each.rule == "unnamed_time")
        assert (action.title, action.where) == ("Name this time: annotate it", "")
        assert action.code == 'with hotline_analysis.annotate("NAME"): ...'


def test_pieces_of_a_function_are_one_place(tmp_path: Path) -> None:
    """Four ops cut the function into pieces, of which each step has one call."""
    trace = steps("frames")
    for begin in (0, 1000, 2000):
        for at in range(620, 900, 80):
            trace.op("aten::mul", begin + at, begin + at + 10)
    with trace.load(tmp_path) as loaded:
        report = ha.report(loaded)
        assert report.screen is not None
        (change,) = (each for each in report.screen.changes if "save_grid" in each.action.what)
        assert change.action.what.endswith("in save_grid (train.py:7): 9 times, 350 µs")
        assert change.count == 1
        assert f"{change.where} · 1 place" in re.sub("<[^>]+>", "", report.to_html())


def test_the_step_without_a_place_is_that_of_all_steps(tmp_path: Path) -> None:
    """Steps of 998 to 1,002 us: save_grid takes 600 us, but 200 in the step of median length, so 520 of 1,000."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number, length in enumerate((998, 999, 1000, 1001, 1002)):
        begin = at + length - (200 if length == 1000 else 600)
        trace.step(number, at, at + length).frame("train.py(20): main", at, at + length)
        trace.op("aten::linear", at, at + 100, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 100, at + 300, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 300, begin).op("aten::add_", at + 300, begin)
        trace.frame("train.py(7): save_grid", begin, at + length)
        at += length
    with trace.load(tmp_path) as loaded:
        report = ha.report(loaded)
        assert report.lead.startswith(
            "Your function save_grid (train.py:7) takes 52 % of the time. Without that, a step"
        )
        assert "would take 480 µs instead of 1.00 ms." in report.lead
        assert report.actions[0].change == "1.00 ms → 480 µs at best"


@pytest.mark.parametrize(("kind", "words"), [("frames", "save_grid (train.py:7)"), ("regions", '"statistics"')])
def test_the_users_slowest_place_is_advised(kind: str, words: str, tmp_path: Path) -> None:
    """350 of 1,000 us of each step."""
    found = advised(steps(kind).load(tmp_path))
    named = [each for each in found.values() if words in f"{each.what} {each.where}"]
    assert max(each.gain_pct for each in named) == pytest.approx(35, abs=1)
    assert "unnamed_time" not in found or found["unnamed_time"].gain_pct < 6


def sampled(folder: Path, *, function: str = "mask", count: int = 80) -> Trace:
    """Steps of 1,000 us, of which python in the module `Net` has 700.

    Of 100 samples of forward, `count` are in the function.
    """
    trace = TraceBuilder(rank=0)
    places = [
        {"function": function, "line": 7, "count": count},
        {"function": "Net.forward", "line": 20, "count": 100 - count},
    ]
    trace.top["hotline_samples"] = {
        "version": 1,
        "interval_ns": 1_000_000,
        "samples": 100,
        "notes": [],
        "frames": [
            {
                "after": "load_data", "before": "backward", "inside": "forward", "file": "/home/me/train.py",
                "first_line": 5, "module": "__main__", "inclusive": each["count"], "gap": 100, "is_user": True,
                "is_loop": False, "is_caller": False, **each,
            }
            for each in places
        ],
    }  # fmt: skip
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).module("Net", 0, at, at + 800)
        trace.op("aten::linear", at, at + 50, seq=3 * number + 1).op("aten::relu", at + 750, at + 800)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 800, at + 900, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 910, at + 1000)
    return trace.load(folder)


def test_the_log_of_a_capture_names_the_place_as_the_page_does(tmp_path: Path) -> None:
    sampled(tmp_path).close()
    page = tmp_path / "page.html"
    log = annotate_and_report(
        tmp_path / "trace.json", tmp_path / "run.hotline", page=page, report_format="text", keep_trace=True
    )
    where = "most likely mask (/home/me/train.py:7)"
    assert f"1. Speed up the slowest place: 1.00 ms → 300 µs at best, {where}\n" in log
    assert f"<b>{where}</b>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("count", "time_us"), [(79, 700), (80, 800)])
def test_samples_name_the_python_in_a_module(tmp_path: Path, count: int, time_us: int) -> None:
    """From 80 % on, a function is likely to call the ops of modules, too, which take 100 us."""
    trace = sampled(tmp_path, count=count)
    first = ha.slowest_places(trace).row(0, named=True)
    assert (first["kind"], first["place"], first["sampled_pct"]) == ("sampled", "mask", count)
    assert first["source"].endswith("train.py:7")
    assert first["path_ns"] == pytest.approx(1000 * time_us, abs=2000)
    assert "mask" in advised(trace)["slowest_place"].what
    screen = ha.report(trace).screen
    assert screen is not None
    (card,) = (change for change in screen.changes if "mask" in change.where)
    assert card.where == "most likely mask (/home/me/train.py:7)"


@pytest.mark.parametrize(
    ("count", "sentence"),
    [(79, "Your function mask (train.py:7) likely takes up to 70 % of the time."),
     (80, "Your function mask (train.py:7) most likely takes 80 % of the time.")],
)  # fmt: skip
def test_the_first_sentence_says_how_sure_it_is(tmp_path: Path, count: int, sentence: str) -> None:
    lead = ha.report(sampled(tmp_path, count=count)).lead
    assert lead.startswith(sentence)


def test_few_samples_name_nothing(tmp_path: Path) -> None:
    """With less than half of the samples, a function is not likely to have the time."""
    assert ha.slowest_places(sampled(tmp_path, count=49)).filter(place="mask").is_empty()


def with_frames(trace: TraceBuilder, *frames: dict[str, object]) -> TraceBuilder:
    """Add samples of user functions in `/home/me/train.py`; all of a frame's samples are in the function."""
    trace.top["hotline_samples"] = {
        "version": 1,
        "interval_ns": 1_000_000,
        "samples": 100,
        "notes": [],
        "frames": [
            {
                "after": None, "before": None, "inside": None, "file": "/home/me/train.py", "first_line": 5,
                "module": "__main__", "inclusive": each["count"], "gap": each["count"], "is_user": True,
                "is_loop": False, "is_caller": False, **each,
            }
            for each in frames
        ],
    }  # fmt: skip
    return trace


@pytest.mark.parametrize(("is_caller", "place"), [(False, "Lion.step"), (True, "the optimizer")])
def test_an_optimizer_of_the_user_is_a_place(tmp_path: Path, is_caller: bool, place: str) -> None:
    """The optimizer takes 400 of 1,000 us. A function that only calls `step()` does not run the ops inside."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).op("aten::linear", at, at + 300, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 300, at + 600, seq=3 * number + 1)
        trace.annotation("Optimizer.step#Lion.step", at + 600, at + 1000).op("aten::mul_", at + 600, at + 1000)
    frame = {"function": "Lion.step", "line": 7, "count": 50, "inside": "optimizer", "after": "backward"}
    loaded = with_frames(trace, {**frame, "before": "forward", "is_caller": is_caller}).load(tmp_path)
    assert [ns for (_, name), (_, ns) in places(loaded).items() if name == place] == [400]
    found = advised(loaded)
    assert ("slowest_place" in found) == (not is_caller)
    if not is_caller:
        assert found["slowest_place"].gain_pct == pytest.approx(40, abs=1)


@pytest.mark.parametrize(("count", "is_named"), [(4, False), (5, True)])
def test_a_function_needs_five_samples(tmp_path: Path, count: int, is_named: bool) -> None:
    """If a function has less than half of the time, all of five samples are in it in at most 1 of 32 cases."""
    frame = {"function": "save_grid", "line": 7, "count": count, "after": "optimizer", "before": "forward"}
    loaded = with_frames(steps("nothing"), frame).load(tmp_path)
    assert (("sampled", "save_grid") in places(loaded)) == is_named


@pytest.mark.parametrize(("batch", "own"), [(100, 200), (200, 300)])
def test_a_batch_is_made_by_the_function_only_if_it_takes_most_of_the_time(
    tmp_path: Path, batch: int, own: int
) -> None:
    """Between optimizer and forward, 300 us: 200 of python and a batch of 100 made by hand, or the other way around."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        trace.op("aten::randn", at, at + batch).op("aten::linear", at + batch, at + batch + 200, seq=3 * number + 1)
        start = at + batch + 200
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", start, start + 300, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", start + 300, start + 500)
        trace.op("aten::add_", start + 300, start + 500)
    frame = {"function": "save_grid", "line": 7, "count": 50, "after": "optimizer", "before": "forward"}
    rows = places(with_frames(trace, frame).load(tmp_path))
    assert rows["sampled", "save_grid"][1] == own


def test_loading_comes_before_the_function_that_loads(tmp_path: Path) -> None:
    """A batch of the DataLoader takes 600 of 1,000 us, in `tokenize` for all samples."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 600)
        trace.op("aten::linear", at + 600, at + 750, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 750, at + 900, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 900, at + 1000)
    frame = {"function": "tokenize", "line": 7, "count": 50, "inside": "load_data", "after": "optimizer"}
    lead = ha.report(with_frames(trace, {**frame, "before": "forward"}).load(tmp_path)).lead
    assert lead.startswith("The CPU loads data for 60 % of the time, most likely in tokenize (train.py:7).")


@pytest.mark.parametrize(("mined", "place"), [(70, "mine"), (30, "Net.forward")])
def test_without_modules_forward_lasts_until_backward(tmp_path: Path, mined: int, place: str) -> None:
    """Of 100 samples before backward, some are in the model and the others in a function called after the model.

    The trace has no module, so the phase forward has both, and no sample of forward alone decides.
    """
    frames = [
        {"function": "Net.forward", "line": 20, "count": 100 - mined, "inside": "forward", "after": "load_data"},
        {"function": "mine", "line": 7, "count": mined, "inside": None, "after": "forward"},
    ]
    trace = TraceBuilder(rank=0)
    trace.top["hotline_samples"] = {
        "version": 1,
        "interval_ns": 1_000_000,
        "samples": 100,
        "notes": [],
        "frames": [
            {
                "before": "backward", "file": "/home/me/train.py", "first_line": 5, "module": "__main__",
                "inclusive": each["count"], "gap": each["count"], "is_user": True, "is_loop": False,
                "is_caller": False, **each,
            }
            for each in frames
        ],
    }  # fmt: skip
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        trace.op("aten::linear", at, at + 50, seq=3 * number + 1).op("aten::relu", at + 750, at + 800)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 800, at + 900, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 910, at + 1000)
    first = ha.slowest_places(trace.load(tmp_path)).filter(kind="sampled").row(0, named=True)
    assert (first["place"], first["sampled_pct"]) == (place, max(mined, 100 - mined))


def test_the_slowest_function_comes_before_the_sum_of_all_ops(tmp_path: Path) -> None:
    """Ops take 580 of 1,000 us, the largest 200 and save_grid 350: the function says more than `computes`."""
    lead = ha.report(steps("frames").load(tmp_path)).lead
    assert lead.startswith("Your function save_grid (train.py:7) takes 35 % of the time.")


def test_all_steps_count_if_the_median_step_has_another_mix(tmp_path: Path) -> None:
    """Five steps of about 1,000 us: the optimizer takes 200 us, but 600 in the step of median length, so 280."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number, length in enumerate((998, 999, 1000, 1001, 1002)):
        update = at + length - (600 if length == 1000 else 200)
        trace.step(number, at, at + length).op("aten::linear", at, at + 300, seq=number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 300, update, seq=number + 1)
        trace.annotation("Optimizer.step#SGD.step", update, at + length).op("aten::add_", update, at + length)
        at += length
    rows = places(trace.load(tmp_path))
    assert rows["phase", "the optimizer"][1] == 280
    assert rows["phase", "backward"][1] == 420


def test_a_call_of_library_code_has_the_line_of_the_user(tmp_path: Path) -> None:
    """Each step waits 600 of 1,000 us for workers, and the samples there are in line 17, which asks for a batch."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, at + 600)
        trace.op("aten::linear", at + 600, at + 750, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 750, at + 900, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 900, at + 1000)
    frame = {"function": "main", "line": 17, "count": 50, "inside": "load_data", "after": "optimizer"}
    caller = {"before": "forward", "is_loop": True, "is_caller": True}
    loaded = with_frames(trace, {**frame, **caller}).load(tmp_path)
    assert places(loaded)["phase", "loading data"] == ("/home/me/train.py:17", 600)
    assert "/home/me/train.py:17" in advised(loaded)["loader_too_few_workers"].where


@pytest.mark.parametrize(("count", "place"), [(80, "on_grad"), (79, "Net_0")])
def test_a_hook_in_backward_is_a_place(tmp_path: Path, count: int, place: str) -> None:
    """A node of backward has 600 of 1,000 us without an op inside, and most samples of backward are in a hook."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).module("Net", 0, at, at + 200)
        trace.op("aten::linear", at, at + 200, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 200, at + 800, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 800, at + 1000).op("aten::add_", at + 800, at + 1000)
    common = {"inside": "backward", "after": "forward", "before": "optimizer", "gap": 100}
    hook = {"function": "on_grad", "line": 7, "count": count, **common}
    loop = {"function": "main", "line": 20, "count": 100 - count, "is_loop": True, "is_caller": True, **common}
    rows = places(with_frames(trace, hook, loop).load(tmp_path))
    assert next(us for (_, name), (_, us) in rows.items() if name == place) == 600 + 200 * (place == "Net_0")


@pytest.mark.parametrize(("count", "is_named"), [(30, True), (4, False)])
def test_python_in_a_call_of_autograd_is_the_hook(tmp_path: Path, count: int, is_named: bool) -> None:
    """A hook of 400 us before each gradient is accumulated, whatever share of the samples of backward it has."""
    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).module("Net", 0, at, at + 200)
        trace.op("aten::linear", at, at + 200, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 200, at + 390, seq=3 * number + 1)
        trace.op(engine, at + 390, at + 800).op("torch::autograd::AccumulateGrad", at + 790, at + 800)
        trace.annotation("Optimizer.step#SGD.step", at + 800, at + 1000).op("aten::add_", at + 800, at + 1000)
    common = {"inside": "backward", "after": "forward", "before": "optimizer", "gap": 100}
    hook = {"function": "on_grad", "line": 7, "count": count, **common}
    loop = {"function": "main", "line": 20, "count": 100 - count, "is_loop": True, "is_caller": True, **common}
    loaded = with_frames(trace, hook, loop).load(tmp_path)
    assert [us for (_, name), (_, us) in places(loaded).items() if name == "on_grad"] == [400] * is_named
    assert ("slowest_place" in advised(loaded)) == is_named


def test_a_larger_finding_elsewhere_leaves_the_advice_on_the_users_function(tmp_path: Path) -> None:
    """Of 1,000 us, a DataLoader without workers takes 500, and `save_grid` between optimizer and batch 200."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + 500)
        trace.op("aten::linear", at + 500, at + 600, seq=3 * number + 1)
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", at + 600, at + 700, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 700, at + 800).op("aten::add_", at + 700, at + 800)
    frame = {"function": "save_grid", "line": 7, "count": 50, "after": "optimizer", "before": "load_data"}
    found = advised(with_frames(trace, frame).load(tmp_path))
    assert found["loader_in_main_process"].gain_pct == pytest.approx(50, abs=1)
    assert found["slowest_place"].gain_pct == pytest.approx(20, abs=1)
    assert found["slowest_place"].what.startswith("The slowest place of your code is most likely save_grid")


@pytest.mark.parametrize(("count", "place"), [(80, "backward of penalty"), (79, "backward of the loss"), (0, None)])
def test_backward_of_the_loss_is_a_place(tmp_path: Path, count: int, place: str | None) -> None:
    """Backward takes 300 of 1,000 us for the loss and 200 for the module; without samples, no function is known."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000).module("Net", 0, at, at + 100)
        trace.op("aten::linear", at, at + 100, seq=3 * number + 1)
        trace.op("aten::mse_loss", at + 100, at + 400, seq=3 * number + 2)
        trace.backward("MseLossBackward0", at + 400, at + 700, seq=3 * number + 2)
        trace.backward("AddmmBackward0", at + 700, at + 900, seq=3 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", at + 900, at + 1000).op("aten::add_", at + 900, at + 1000)
    common = {"inside": "loss", "after": "forward", "before": "backward", "gap": 100}
    loss = {"function": "penalty", "line": 7, "count": count, **common}
    loop = {"function": "main", "line": 20, "count": 100 - count, "is_loop": True, "is_caller": True, **common}
    rows = places(with_frames(trace, *([loss] if count else []), loop).load(tmp_path))
    found = {name: us for (_, name), (_, us) in rows.items() if name.startswith("backward")}
    assert found == {place or "backward of the loss": 300}


@pytest.mark.parametrize(("own", "place"), [(0, None), (60, "main")])
def test_a_function_around_the_loop_is_no_place(tmp_path: Path, own: int, place: str | None) -> None:
    """The loop and its caller are on every stack. Only samples of a line of the loop itself name the line."""
    common = {"after": "optimizer", "before": "forward", "gap": 100}
    parts = [
        {"function": name, "line": 7, "count": (100 - own) // 3, **common} for name in ("first", "second", "third")
    ]
    around = {"is_loop": True, "inclusive": 100, **common}
    loop = {"function": "main", "line": 20, "count": own, **around}
    caller = {"function": "run", "line": 40, "count": 0, **around}
    loaded = with_frames(steps("nothing"), *parts, loop, caller).load(tmp_path)
    assert [name for kind, name in places(loaded) if kind == "sampled"] == [place] * (place is not None)


@pytest.mark.parametrize(
    ("own", "lines", "python_us", "is_named"),
    [(70, (), 2000, True), (30, (20, 20), 2000, True), (30, (31, 9), 2000, False), (30, (20, 20), 800, False)],
    ids=["all samples", "a part of them", "a line of the loop has more", "shorter than a stretch of its own"],
)
def test_long_python_between_two_calls_of_the_model_is_a_place(
    tmp_path: Path, own: int, lines: tuple[int, ...], python_us: int, is_named: bool
) -> None:
    """The loop also runs ops between calls, so its lines have a part of the samples there."""
    trace = TraceBuilder(rank=0)
    length = python_us + 1000
    for number in range(3):
        at = length * number
        after = at + 300 + python_us
        trace.step(number, at, at + length)
        for begin in (at, after):
            trace.module("Net", 0, begin, begin + 200)
            trace.op("aten::linear", begin, begin + 100, seq=2 * number + (begin > at)).op(
                "aten::relu", begin + 100, begin + 200
            )
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", after + 300, after + 500, seq=2 * number + 1)
        trace.annotation("Optimizer.step#SGD.step", after + 600, after + 700).op("aten::add_", after + 600, after + 700)
    shared = {"after": "forward", "before": "forward", "gap": own + sum(lines)}
    loop = [{"function": "main", "line": 40 + number, "count": count} for number, count in enumerate(lines)]
    frames = [
        {**shared, "function": "put", "line": 7, "count": own},
        *({**shared, **each, "is_loop": True} for each in loop),
    ]
    rows = places(with_frames(trace, *frames).load(tmp_path))
    assert (("sampled", "put") in rows) == is_named


@pytest.mark.parametrize(("own", "place"), [(70, "ban"), (10, "Net.forward")])
def test_ops_between_two_calls_of_the_model_are_no_time_of_the_model(tmp_path: Path, own: int, place: str) -> None:
    """Of 100 samples, some are between two calls. The ops there take 60 % of forward, which 10 do not explain."""
    trace = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, at + 1000)
        for begin in (at, at + 800):
            trace.module("Net", 0, begin, begin + 200).op("aten::linear", begin, begin + 200)
        for begin in range(at + 200, at + 800, 20):
            trace.op("aten::select", begin, begin + 20)
    shared = {"after": "forward", "before": "forward"}
    frames = [
        {**shared, "function": "Net.forward", "line": 20, "count": 100 - own, "inside": "forward"},
        {**shared, "function": "ban", "line": 7, "count": own},
    ]
    rows = places(with_frames(trace, *frames).load(tmp_path))
    assert [name for (kind, name), (_, us) in rows.items() if kind == "sampled" and us == 600] == [place]
