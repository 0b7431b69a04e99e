"""What reports say of real traces, beside what is true of them.

The truth was established without this project, in plain Python over the JSON and by reading what each workload is: it
is `reference/verdicts.md` beside the traces, from which the numbers here are. Times of a median step differ from those
of the whole window by a few per cent, so shares are compared with a tolerance.
"""

from __future__ import annotations

import functools
import re

import pytest

import hotline_analysis as ha
from hotline_analysis.answers.rules import Advice
from hotline_analysis.reports import Report
from tests.real_traces import opened

pytestmark = pytest.mark.traces


HALF_PRECISION = {"fp32_where_half_would_do", "tf32_where_half_would_do", "fp32_on_cuda_cores"}
LOADER = {"loader_in_main_process", "loader_too_few_workers"}
LAUNCHING = {"host_bound_launching"}


@functools.cache
def report(name: str) -> Report:
    return ha.report(opened(f"{name}.json.gz"))


def words(name: str) -> str:
    """The whole report, its lines joined."""
    return " ".join(report(name).to_text().split())


def answers(name: str) -> dict[str, str]:
    return {finding.question: f"{finding.answer}: {finding.statement}" for finding in report(name).findings}


def found(name: str) -> dict[str, Advice]:
    """What the rules say, in order."""
    return {each.rule: each for each in report(name).advice}


def busy_ns(name: str) -> int:
    """GPU time of the median step, or of the whole trace where no step is marked."""
    return int(opened(f"{name}.json.gz").sql("select sum(dur_ns) from gpu_event where step is not null").item())


def step_ns(one: Advice) -> float:
    return 100 * one.gain_ns / one.gain_pct


def bound(name: str) -> str:
    return ha.gpu_or_cpu_bound(opened(f"{name}.json.gz")).answer


def limit_pct(name: str, limit: str) -> float:
    rows = ha.gpu_or_cpu_bound(opened(f"{name}.json.gz")).evidence.filter(limit=limit)
    return float(rows["path_pct"].sum())


def slowest(name: str) -> str:
    (said,) = [text for question, text in answers(name).items() if "slowest" in question]
    return said


def optimizer(name: str) -> str:
    (said,) = [text for question, text in answers(name).items() if "optimizer" in question]
    return said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "verdicts/sglang_graph_capture_mi300",
            r"capture of a CUDA graph, not a run: 544 launches .* none of them ran",
        ),
        ("verdicts/normalization_mi300", r"about first launches, not training: \d+ calls .* load code"),
    ],
)
def test_a_trace_without_a_run_gets_no_verdict(name: str, said: str) -> None:
    assert bound(name) == "no-run"
    assert re.search(said, report(name).headline)
    assert "shows no run" in slowest(name)
    assert "shows no run" in optimizer(name)
    assert found(name) == {}


def test_first_launches_are_93_per_cent() -> None:
    (share,) = re.findall(r"\((\d+\.\d) % of it\)", report("verdicts/normalization_mi300").headline)
    assert float(share) == pytest.approx(93, abs=1)


def test_work_that_the_file_lacks_is_not_idle_time() -> None:
    name = "verdicts/vllm_graph_execution_mi300"
    assert bound(name) == "gpu-bound"
    assert report(name).headline.startswith("Mostly computing on the GPU")
    text = words(name)
    assert re.search(r"For 7\.\d+ ms, launched work waits although the GPU does nothing in the file", text)
    assert "From its first recorded work to the last, it is busy for 99.8 %" in text
    # two kinds of kernels, 66 % together, and not `aten::mm`, 2.6 %
    assert "aten::mm" not in slowest(name)
    assert sum(map(float, re.findall(r"(\d+\.\d) %(?: of GPU time;|\.$)", slowest(name)))) == pytest.approx(66, abs=1)
    assert found(name) == {}


def test_preprocessing_without_a_loader() -> None:
    name = "verdicts/timesformer_h100"
    assert bound(name) == "input-bound"
    assert limit_pct(name, "load_data") == pytest.approx(57, abs=1)
    assert "loading data" in report(name).headline
    first, second, third, *_ = said = found(name)
    assert (first, second, third) == ("preprocessing_outside_loader", "attention_not_fused", "unaligned_matmul")
    assert said[first].gain_pct == pytest.approx(57, abs=1)
    assert "normalize" in said[first].what
    assert 100 * said[second].time_ns / step_ns(said[second]) == pytest.approx(22, abs=1)
    assert 100 * said[third].time_ns / busy_ns(name) == pytest.approx(27, abs=1)
    assert not LOADER & set(said)
    # no op says where the time is, but the place does: the function that calls the library's preprocessing
    assert re.match(
        r"run_on_input: run_on_input \(moca/\S+/pipeline/model\.py:40\): .* 5\d\.\d % of the step", slowest(name)
    )
    (ops,) = [section for section in report(name).sections if section.name == "ops"]
    assert ops.rows["name"][0] == "aten::_softmax"
    assert "no optimizer step" in optimizer(name)


@pytest.mark.long  # a large trace; its rules have tests in tests/rule
def test_a_loader_in_the_main_process() -> None:
    name = "verdicts/owlv2_mi300"
    assert bound(name) == "input-bound"
    assert limit_pct(name, "load_data") == pytest.approx(64, abs=1)
    said = found(name)
    first, *_ = said
    assert first == "loader_in_main_process"
    assert said[first].gain_pct == pytest.approx(64, abs=1)
    assert said["cpu_tensors"].time_ns == pytest.approx(41e6, rel=0.1)
    text = words(name)
    assert re.search(r"CPU loads data \d+ ms 64\.\d % load_data built-in zoom_shift: 5 ×", text)
    assert re.search(r"CPU computes on CPU tensors \S+ ms \S+ % other max: 10 × 4\.\d+ ms", text)
    # the call took 43 us, the copies' calls wait for the GPU: no time of a synchronise is idle time
    (sync,) = re.findall(r"CPU in a synchronising call (\S+) ms", text)
    assert float(sync) < 5


@pytest.mark.long  # a large trace; its rules have tests in tests/rule
def test_compiled_already() -> None:
    name = "verdicts/sd35_compiled_mi300"
    assert bound(name) == "launch-bound"
    said = found(name)
    first, *_ = said
    assert first == "compiled_without_graphs"
    assert 'mode="reduce-overhead"' in said[first].do
    assert 25 < said[first].gain_pct < 40
    assert not LAUNCHING & set(said)
    assert re.search(
        r"Python stacks were recorded, which can make the CPU's work two to three times as long", words(name)
    )


def test_a_busy_gpu_in_half_precision() -> None:
    name = "verdicts/qwen_mi300"
    assert bound(name) == "gpu-bound"
    assert "The GPU is busy for 91.5 % of the time" in words(name)
    said = found(name)
    # fusing the chains may cost more than they take: the report says so, and does not advise it
    assert next(iter(said)) == "copies_on_device"
    chains = r"compile may help, or cost time: elementwise kernels in chains .*: \d+ times, 10\.\d ms"
    assert re.search(chains, words(name))
    assert 100 * said["copies_on_device"].time_ns / busy_ns(name) == pytest.approx(14, abs=2)
    assert not HALF_PRECISION & set(said)


def test_tf32_and_transposes() -> None:
    name = "labelled/resnet50/trace"
    assert bound(name) == "gpu-bound"
    assert re.search(r"The GPU is busy for 99\.\d % of the time", words(name))
    said = found(name)
    assert list(said)[:2] == ["tf32_where_half_would_do", "layout_transposes"]
    assert 100 * said["tf32_where_half_would_do"].time_ns / busy_ns(name) == pytest.approx(41, abs=1)
    assert 100 * said["layout_transposes"].time_ns / busy_ns(name) == pytest.approx(10, abs=1)
    (load,) = ha.phases(opened(f"{name}.json.gz")).filter(phase="load_data").rows(named=True)
    assert load["cpu_ns"] == pytest.approx(327e6, rel=0.01)
    assert load["cpu_waiting_ns"] == pytest.approx(309e6, rel=0.01)
    assert optimizer(name).startswith("no")


def test_fp32_on_cuda_cores_and_a_far_softmax() -> None:
    name = "labelled/transformer/trace"
    assert bound(name) == "gpu-bound"
    assert re.search(r"The GPU is busy for 97\.\d % of the time", words(name))
    said = found(name)
    assert list(said)[:2] == ["fp32_where_half_would_do", "softmax_far_dimension"]
    assert 100 * said["fp32_where_half_would_do"].time_ns / busy_ns(name) == pytest.approx(71, abs=1)
    assert 100 * said["softmax_far_dimension"].time_ns / busy_ns(name) >= 5
    assert "single_tensor_optimizer" in said


@pytest.mark.long  # a large trace; its rules have tests in tests/rule
def test_exposed_communication_and_transposes() -> None:
    name = "training/resnet18_ddp_checkpoint_mi300"
    assert bound(name) == "communication-bound"
    assert report(name).headline.startswith("Mostly communication between GPUs")
    assert re.search(r"communicates and does not compute \S+ ms 6[345]\.\d %", words(name))
    said = found(name)
    assert next(iter(said)) == "exposed_communication"
    # 943 in four steps, of which one is the median
    assert said["layout_transposes"].count == pytest.approx(943 / 4, abs=1)
    assert 100 * said["layout_transposes"].time_ns / step_ns(said["layout_transposes"]) == pytest.approx(6, abs=1.5)


def test_buffers_that_are_sent_in_every_step() -> None:
    name = "training/ddp_a100_annotated"
    assert bound(name) == "launch-bound"
    said = found(name)
    assert list(said)[:2] == ["host_bound_launching", "broadcast_buffers"]
    # ops for it take 10 % of the window; without it, what lies between them goes, too
    assert 10 <= said["broadcast_buffers"].gain_pct < 20


@pytest.mark.long  # a large trace; its rules have tests in tests/rule
def test_gradients_that_sort() -> None:
    name = "training/dlrm_v100_cudagraph"
    assert bound(name) == "gpu-bound"
    said = found(name)
    assert "index_backward_sort" in list(said)[:2]
    assert 100 * said["index_backward_sort"].time_ns / step_ns(said["index_backward_sort"]) == pytest.approx(
        13.5, abs=1
    )
    # of the kernels with fewer blocks than multiprocessors, 36 % of the window, collectives are nearly all; of these
    # the exchanges of embeddings (all-to-all) nearly two thirds
    assert 100 * said["exposed_collectives"].time_ns / step_ns(said["exposed_collectives"]) > 20
