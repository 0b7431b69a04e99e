"""What TraceLens counts in real traces beside ours: equal, or it differs for a reason that is known.

TraceLens 171dd747 wrote the references, `unified_perf_summary.csv`, in which each kernel is part of one row. A row is
all calls of an op with the same arguments. Every row must be ours, to the FLOP and the byte, after the differences in
`REASONS`, each of which is worked out from the shapes and not from the result. How many rows need each is fixed.
"""

from __future__ import annotations

import ast
import csv
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import pytest

from tests.real_traces import TRACES, file, opened

pytestmark = pytest.mark.traces


REASONS = {
    "split": "they give what is computed again, or on another thread, a row of its own",
    "own kernels": "where an op launches kernels beside other ops, they give each of its kernels a row of its own",
    "softmax": "they do not count the softmax of attention",
    "causal": "they count half of all pairs where attention is causal, and not the triangle with its diagonal",
    "mask": "they count the gradient of the input also where `output_mask` says that it is not computed",
    "copy": "they count a FLOP for each element of a copy",
    "parameters": "they count 6 FLOP and elements per channel for the weights and statistics of a normalisation; its"
    " weights, biases and given statistics are 2 or 4, and take no FLOP",
    "norm backward": "they count 9 FLOP per element of the gradient of a batch norm, we 8 (a convention), and 4"
    " elements per channel, in the type of the input; it has 5, of which two are fp32",
    "number": "they count 8 bytes for a Python float or integer, or 4, as if it were in the memory of the GPU",
    "stride 0": "they count all elements of a tensor that was expanded, although these are the same few in memory",
    "one result": "they take the result of each reduction for one element, as its axes are text",
    "no arrow": "they follow arrows, and ROCm's traces have none that starts at the call of a memset",
}

# Lines of each file; different calls, and how many of those have FLOP and bytes; how many need which reason.
ROWS: dict[str, dict[str, int]] = {
    "inference/bert_small_h100": {
        **{"lines": 16, "calls": 16, "with FLOP and bytes": 8, "equal": 14},
        **{"softmax": 1, "parameters": 1},
    },
    "inference/qwen_h100": {
        **{"lines": 35, "calls": 35, "with FLOP and bytes": 26, "equal": 25},
        **{"softmax": 1, "causal": 1, "copy": 6, "number": 2, "one result": 1},
    },
    "training/resnet18_ddp_checkpoint_mi300": {
        **{
            "lines": 129,
            "calls": 102,
            "with FLOP and bytes": 93,
            "equal": 24,
            "split": 23,
            "own kernels": 1,
            "mask": 1,
        },
        **{
            "copy": 22,
            "parameters": 5,
            "norm backward": 5,
            "number": 19,
            "stride 0": 1,
            "one result": 2,
            "no arrow": 8,
        },
    },
}

Key = tuple[Any, ...]
COLUMNS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
TYPES = {"c10::BFloat16": 2, "float": 4, "long int": 8, "bool": 1, "double": 8, "Scalar": 4}

# All calls with shapes: what they compute, which may be the work of ops inside them, and what they launch.
CALLS = """
with call as (
    select event_id, event.name, nesting.track_id, nesting.start_ns, nesting.end_ns,
        input_dims::varchar as dims, input_types::varchar as types, input_strides::varchar as strides,
        concrete_inputs::varchar as concrete
    from op
    inner join event using (rank, event_id)
    inner join nesting using (rank, event_id)
    where input_dims is not null
),
inside as (
    select call.event_id,
        sum(matrix_flop + vector_flop)::bigint as flop, sum(dense_flop)::bigint as dense_flop,
        sum(vector_flop)::bigint as vector_flop,
        sum(bytes)::bigint as bytes
    from call
    inner join (from op_work inner join nesting using (rank, event_id) where is_outermost) as work
        on call.track_id = work.track_id and work.start_ns >= call.start_ns and work.start_ns < call.end_ns
    group by call.event_id
),
launched as (
    select call.event_id,
        list({'event_id': gpu_event.event_id, 'dur_ns': gpu_event.dur_ns, 'is_own': gpu_event.op_id = call.event_id})
            as gpu_events
    from call
    inner join nesting as runtime on call.track_id = runtime.track_id
        and runtime.start_ns >= call.start_ns and runtime.start_ns < call.end_ns
    inner join gpu_event on runtime.event_id = gpu_event.runtime_id
    group by call.event_id
)
select call.name, dims, types, strides, concrete, count(*) as calls,
    list(distinct coalesce(own.matrix_flop + own.vector_flop, inside.flop)) as flop,
    any_value(coalesce(own.dense_flop, inside.dense_flop)) as dense_flop,
    any_value(coalesce(own.vector_flop, inside.vector_flop)) as vector_flop,
    list(distinct coalesce(own.bytes, inside.bytes)) as bytes,
    coalesce(flatten(list(gpu_events) filter (where gpu_events is not null)), []) as gpu_events
from call
left join op_work as own using (event_id)
left join inside using (event_id)
left join launched using (event_id)
group by all
"""


@dataclass
class Theirs:
    """A row of theirs, or the sum of those that they split it into."""

    calls: int = 0
    gpu_us: float = 0.0
    flop: float | None = None
    nbytes: float | None = None
    parts: int = 0
    reasons: set[str] = field(default_factory=set)


def fixed(value: Any) -> Any:
    """A value that can be a key: tuples for lists."""
    return tuple(map(fixed, value)) if isinstance(value, list | tuple) else value


@cache
def theirs(name: str) -> dict[Key, Theirs]:
    found: dict[Key, Theirs] = {}
    path = TRACES.parent / "reference" / "tracelens" / name.rpartition("/")[2] / "unified_perf_summary.csv"
    for row in csv.DictReader(path.read_text().splitlines()):
        op, _, kernel = row["name"].partition("->")
        key = (op, *(fixed(ast.literal_eval(row[column])) if row[column] else None for column in COLUMNS))
        each = found.setdefault(key, Theirs())
        flop = float(row["GFLOPS"]) * 1e9 if row["GFLOPS"] else None
        nbytes = float(row["Data Moved (MB)"]) * 2**20 if row["Data Moved (MB)"] else None
        assert not each.parts or (each.flop, each.nbytes) == (flop, nbytes)
        each.flop, each.nbytes, each.parts = flop, nbytes, each.parts + 1
        each.calls += int(row["operation_count"])
        each.gpu_us += float(row["Kernel Time (µs)_sum"] or 0)
        if each.parts > 1:
            each.reasons.add("split")
        if kernel:
            each.reasons.add("own kernels")
    return found


@cache
def ours(name: str) -> dict[Key, dict[str, Any]]:
    found = {}
    for row in opened(f"{name}.json.gz").sql(CALLS).to_dicts():
        columns = (row[column] for column in ("dims", "types", "strides", "concrete"))
        found[(row["name"], *(fixed(json.loads(text)) if text else None for text in columns))] = row
    return found


@cache
def arrows(name: str) -> set[int]:
    """Where arrows to the GPU start: their ids are correlations."""
    events = file(f"{name}.json.gz")["traceEvents"]
    return {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"}


def arrow_reaches(name: str, number: int) -> bool:
    """Whether an arrow starts for an event on the GPU; without one, it must be a memset."""
    event = file(f"{name}.json.gz")["traceEvents"][number]
    found = event["args"]["correlation"] in arrows(name)
    assert found or event["cat"] == "gpu_memset"
    return found


def difference(key: Key, row: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """What TraceLens counts more than we, in FLOP and bytes, by reason."""
    name, dims, types, strides, concrete = key
    size, count = TYPES.get(types[0], 0), prod(dims[0])
    found: dict[str, tuple[int, int]] = {}
    if "scaled_dot_product" in name:
        found["softmax"] = (-row["vector_flop"], 0)
        if concrete[4] == "True":
            matrix_flop = row["flop"][0] - row["vector_flop"]
            found["causal"] = (row["dense_flop"] // 2 - matrix_flop, 0)
    elif name == "aten::convolution_backward":
        if concrete[10].startswith("[False"):
            found["mask"] = (row["flop"][0], row["bytes"][0])
    elif name == "aten::copy_":
        found["copy"] = (count, 0)
    elif name in ("aten::layer_norm", "aten::batch_norm"):
        channels = dims[2][0] if name == "aten::layer_norm" else dims[1][0]
        given = 2 if name == "aten::layer_norm" else 4
        found["parameters"] = (6 * channels, (6 - given) * channels * size)
    elif name == "aten::native_batch_norm_backward":
        channels = dims[2][0]
        small = sum(prod(dims[place]) * TYPES[types[place]] for place in range(2, 7))
        found["norm backward"] = (count, 4 * channels * size - small)
    elif name in ("aten::sum", "aten::mean"):
        axes = [int(axis) % len(dims[0]) for axis in concrete[1].strip("[]").split(",") if axis.strip()]
        results = prod(each for axis, each in enumerate(dims[0]) if axis not in axes) if axes else 1
        found["one result"] = (0, (1 - results) * size)
    elif name in ("aten::add", "aten::add_", "aten::mul", "aten::div"):
        if dims[1] == () and types[1] in ("double", "long int", "Scalar"):
            found["number"] = (0, TYPES[types[1]])
        hidden = [sizes if stride == 0 else 1 for sizes, stride in zip(dims[0], strides[0], strict=True)]
        found["stride 0"] = (0, (count - count // prod(hidden)) * size)
    return {reason: more for reason, more in found.items() if more != (0, 0)}


@pytest.mark.parametrize("name", ROWS)
def test_each_row_of_tracelens_is_ours(name: str) -> None:
    if not (TRACES.parent / "reference" / "tracelens").exists():
        pytest.skip("the reference of TraceLens is not there")
    rows: Counter[str] = Counter()
    for key, row in theirs(name).items():
        mine = ours(name)[key]
        reasons = set(row.reasons)
        assert row.calls == mine["calls"], key
        if row.flop is not None or row.nbytes is not None:
            more = difference(key, mine)
            reasons |= set(more)
            assert len(mine["flop"]) == len(mine["bytes"]) == 1, key
            assert row.flop == pytest.approx(mine["flop"][0] + sum(flop for flop, _ in more.values()), abs=1e-3), key
            assert row.nbytes == mine["bytes"][0] + sum(nbytes for _, nbytes in more.values()), key
            rows["with FLOP and bytes"] += 1
        seen = [event for event in mine["gpu_events"] if event["is_own"] or "own kernels" not in reasons]
        reached = [event for event in seen if arrow_reaches(name, event["event_id"])]
        if reached != seen:
            reasons.add("no arrow")
        # Their durations are rounded to 1/1024 us.
        assert abs(row.gpu_us * 1000 - sum(event["dur_ns"] for event in reached)) <= len(reached), key
        rows["calls"] += 1
        rows["lines"] += row.parts
        rows.update(reasons or {"equal"})
    assert set(rows) <= {"lines", "calls", "with FLOP and bytes", "equal", *REASONS}
    assert rows == ROWS[name]


def test_weights_in_the_shapes_are_those_of_the_model() -> None:
    """The model is a ResNet-18 of 11,689,512 parameters, as many as its trace sums up over all ranks in each step."""
    places = {"aten::convolution": (1, 2), "aten::native_batch_norm": (1, 2), "aten::addmm": (2, 0)}
    trace = opened("training/resnet18_ddp_checkpoint_mi300.json.gz")
    calls = trace.sql(
        """
        select event.name, label.module_id, op.input_dims::varchar
        from op_work
        inner join op using (rank, event_id)
        inner join event using (rank, event_id)
        inner join label using (rank, event_id)
        """
    ).rows()
    found = {
        (module, place, fixed(json.loads(dims)[place]))
        for name, module, dims in calls
        for place in places.get(name, ())
        if json.loads(dims)[place]
    }
    assert len(found) == 20 + 2 * 20 + 2
    assert sum(prod(sizes) for _, _, sizes in found) == 11_689_512
