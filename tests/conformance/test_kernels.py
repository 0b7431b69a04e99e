"""Kernels of real traces: what the profiler says of their occupancy, and whether names tell the unit they run on."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

import hotline_analysis as ha
from tests.real_traces import NAMES, TRACES, gpu_events, opened

pytestmark = pytest.mark.traces


# The profiler's own figures, from the JSON: blocks, registers, shared memory, and what it makes of them.
DEFAULT_SHARED = 48 * 1024
# Traces that list the properties of their NVIDIA GPU, and have kernels with occupancy.
TOLD = (
    "counters/alexnet_a100",
    "counters/simple_add_a100",
    "inference/bert_small_h100",
    "inference/qwen_h100",
    "inference/vllm_b200",
    "loader_pairs/1_workers0",
    "loader_pairs/1_workers4",
    "training/ddp_a100_annotated",
    "training/ddp_v100_memory",
    "training/dlrm_a100_rank3",
    "training/dlrm_v100_cudagraph",
    "verdicts/timesformer_h100",
)
# Traces that do not, and the GPU that they were recorded on.
NAMELESS = {"multi_rank/rank-0": "A100 SXM4 40GB", "multi_rank/rank-1": "A100-PG509-200"}
MATRIX_OP = re.compile(
    r"aten::(_?(add|b|badd|addb|_scaled_|_int_)?mm|addmv|mv|_?convolution(_backward)?"
    r"|(cudnn|miopen)_\w*convolution\w*|_?scaled_dot_product_\w*|_(flash|efficient|cudnn)_attention_\w*)"
    r"|flash_attn::\w+"
)
RULES = Path(__file__).parents[2] / "queries/rules/kernel_units.csv"


def told(name: str) -> dict[int, tuple[float, int, float]]:
    """Of each kernel with a figure: occupancy in per cent, shared memory, blocks per multiprocessor."""
    found = {}
    for number, event in gpu_events(name):
        args = event.get("args", {})
        if "est. achieved occupancy %" in args:
            blocks = float(args["blocks per SM"])
            found[number] = (float(args["est. achieved occupancy %"]), int(args["shared memory"]), blocks)
    return found


def check_occupancy(name: str, trace: ha.Trace) -> tuple[int, int]:
    """Compare every kernel, and return how many there are, and how many of these the profiler calls 0 wrongly."""
    given = told(name)
    ours = trace.sql(
        "select event_id, occupancy_pct, sm_efficiency_pct, evidence, waves * resident_blocks as blocks_each"
        " from kernel_shape"
    )
    assert set(given) <= set(ours["event_id"])
    zero = 0
    for number, occupancy, efficiency, evidence, blocks_each in ours.rows():
        if number not in given:
            continue
        theirs, shared, blocks = given[number]
        assert evidence == "computed"
        assert 0 < occupancy <= 100
        assert blocks_each == pytest.approx(blocks, abs=0.005)
        assert efficiency == pytest.approx(100 * min(blocks, 1), abs=0.5)
        if shared > DEFAULT_SHARED:
            assert theirs == 0
            zero += 1
        else:
            assert abs(theirs - occupancy) <= 0.5 + 1e-9  # it is a whole number
    return len(given), zero


@pytest.mark.parametrize("name", TOLD)
def test_occupancy_is_that_of_the_profiler(name: str) -> None:
    compared, _ = check_occupancy(name + ".json.gz", opened(name + ".json.gz"))
    assert compared >= 50


def test_no_trace_with_occupancy_is_left_out() -> None:
    # Their texts tell, and all of them parsed would take a quarter of a minute.
    lists = set()
    for name in NAMES:
        text = gzip.decompress((TRACES / name).read_bytes())
        if b'"est. achieved occupancy %"' in text and re.search(rb'"deviceProperties"\s*:\s*\[\s*\{', text):
            lists.add(name)
    assert lists == {f"{name}.json.gz" for name in TOLD}


@pytest.mark.parametrize("name", NAMELESS)
def test_occupancy_of_a_gpu_that_the_user_names(name: str) -> None:
    """Its limits follow from the compute capability of the model."""
    with ha.load(TRACES / f"{name}.json.gz", gpu=NAMELESS[name]) as trace:
        compared, _ = check_occupancy(f"{name}.json.gz", trace)
    assert compared >= 1000


@pytest.mark.parametrize("name", NAMES)
def test_names_tell_the_unit_of_matrix_products(name: str) -> None:
    """99 % of the time of kernels below products, convolutions and attention, without the helpers that rules name."""
    with RULES.open(encoding="utf-8") as stream:
        helpers = re.compile("|".join(f"({row['pattern']})" for row in csv.DictReader(stream) if not row["unit"]))
    rows = opened(name).sql("select name, op, unit, dur_ns from gpu_event where category = 'kernel' and op is not null")
    known = unknown = 0
    for kernel, op, unit, dur_ns in rows.rows():
        if MATRIX_OP.fullmatch(op):
            if unit is not None:
                known += dur_ns
            elif not helpers.search(kernel):
                unknown += dur_ns
    assert unknown <= 0.01 * (known + unknown)


HALF = {"BFloat16": "bf16", "Half": "fp16"}


@pytest.mark.parametrize("name", NAMES)
def test_precisions_do_not_contradict_the_operands(name: str) -> None:
    """What names say of half precision on matrix units is what the op was given, and so is full precision."""
    rows = opened(name).sql(
        "select name_info.name, name_info.precision, op.input_types->>0 as type from launch"
        " inner join event on launch.rank = event.rank and launch.event_id = event.event_id"
        " inner join name_info on (event.rank, event.category, event.name) ="
        " (name_info.rank, name_info.category, name_info.name)"
        " inner join op on launch.rank = op.rank and launch.op_id = op.event_id"
        " inner join event as call on op.rank = call.rank and op.event_id = call.event_id"
        " where name_info.unit = 'matrix' and name_info.precision is not null and op.input_types is not null"
        " and regexp_full_match(call.name, 'aten::(mm|addmm|bmm|baddbmm|(cudnn|miopen)_convolution)')"
    )
    for kernel, precision, type_ in rows.rows():
        half = next((short for word, short in HALF.items() if word in type_), None)
        if half is not None:
            assert precision == half, kernel
        elif "float" in type_:
            assert precision in ("fp32", "tf32"), kernel
