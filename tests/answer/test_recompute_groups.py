"""Light ops that are computed again, alone and in groups: Echo's example, with every number by hand.

Zheng et al., "Echo: Compiler-based GPU Memory Footprint Reduction for LSTM RNN Training", ISCA 2020, section 4: in
attention, Z_i = tanh(X + Y_i) is saved for every i. X is as large as each Z_i, the Y_i are small. To compute one Z_i
again, X and Y_i have to be kept, which is more than Z_i; to compute all of them again, X is kept only once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder

LARGE, SMALL = [4, 8, 16], [4, 1, 16]
X, Y = 4 * 4 * 8 * 16, 4 * 4 * 16


class Attention:
    """Z_i = tanh(X + Y_i), of which the program holds X, and autograd saves the Z_i."""

    def __init__(self, count: int, *, saves_x: bool = False) -> None:
        self.trace = TraceBuilder(rank=0).step(0, 0, 2000).annotation("## forward ##", 0, 900)
        self.total = 0
        self.addresses: dict[str, tuple[int, int]] = {}
        self.at = 10
        self.op("aten::linear", "x", X, [4, 8, 32], [16, 32])
        for number in range(count):
            self.op("aten::linear", f"y{number}", Y, [4, 1, 32], [16, 32])
            self.op("aten::add", f"s{number}", X, LARGE, SMALL)
            self.release(f"y{number}")
            self.op("aten::tanh", f"z{number}", X, LARGE)
            self.release(f"s{number}")
        if not saves_x:
            self.release("x")
        self.trace.annotation("## backward ##", 900, 1900)
        self.at = 910
        self.trace.op("autograd::engine::evaluate_function: TanhBackward0", 905, 1800)
        for name in sorted(self.addresses):
            self.release(name)

    def op(self, name: str, made: str, nbytes: int, *dims: list[int]) -> None:
        given: dict[str, Any] = {"Input Dims": list(dims), "Input type": ["float"] * len(dims)}
        self.trace.op(name, self.at, self.at + 8, **given)
        self.total += nbytes
        self.addresses[made] = (len(self.trace.events), nbytes)
        self.trace.memory(nbytes, self.at + 2, total=self.total, address=self.addresses[made][0])
        self.at += 10

    def release(self, name: str) -> None:
        address, nbytes = self.addresses.pop(name)
        self.total -= nbytes
        self.trace.memory(-nbytes, self.at, total=self.total, address=address)
        self.at += 2


def test_echo_op_by_op_is_refused(tmp_path: Path) -> None:
    """Alone, X and Y_0 are more to keep than Z_0 is to save."""
    assert ha.recompute_groups(Attention(1).trace.load(tmp_path)).is_empty()


@pytest.mark.parametrize("count", [2, 3, 8])
def test_echo_as_a_group_is_accepted(tmp_path: Path, count: int) -> None:
    """X is kept once, and each Y_i; every Z_i is saved no more. No one of them would pay alone."""
    row = ha.recompute_groups(Attention(count).trace.load(tmp_path)).row(0, named=True)
    assert row["ops"] == "aten::add, aten::tanh"
    assert (row["group_count"], row["result_count"], row["alone_count"]) == (1, count, 0)
    assert (row["saved_bytes"], row["kept_bytes"]) == (count * X, X + count * Y)
    assert row["net_bytes"] == count * X - X - count * Y > 0
    # two ops of 8 us for each
    assert row["forward_ns"] == count * 16_000
    assert not row["is_random"]


def test_what_is_saved_anyway_need_not_be_kept(tmp_path: Path) -> None:
    """If a product saves X for its own gradient, one Z_i pays alone."""
    row = ha.recompute_groups(Attention(1, saves_x=True).trace.load(tmp_path)).row(0, named=True)
    assert (row["alone_count"], row["saved_bytes"], row["kept_bytes"]) == (1, X, Y)


def test_products_are_not_computed_again(tmp_path: Path) -> None:
    """X comes from a product: it is kept, and no row has the product among its ops."""
    frame = ha.recompute_groups(Attention(4, saves_x=True).trace.load(tmp_path))
    assert frame["ops"].to_list() == ["aten::add, aten::tanh"]
    assert frame["saved_bytes"].to_list() == [4 * X]


def test_the_steps_of_one_group(tmp_path: Path) -> None:
    """Z_0 and Z_1 with X: what is made, what each op is given, and what Z_0 takes, by name instead of block."""
    trace = Attention(2).trace.load(tmp_path)
    made = step_frame(trace, "recompute_groups", "made_block").sort("start_ns")
    assert made.select("name", "bytes", "units", "is_saved", "is_light").rows() == [
        ("aten::linear", X, X, False, False),
        *(
            [("aten::linear", Y, Y, False, False), ("aten::add", X, X, False, True), ("aten::tanh", X, X, True, True)]
            * 2
        ),
    ]
    block = dict(zip(["x", "y0", "s0", "z0", "y1", "s1", "z1"], made["block_id"], strict=True))
    op = dict(zip(["x", "y0", "s0", "z0", "y1", "s1", "z1"], made["op_id"], strict=True))
    arguments = step_frame(trace, "recompute_groups", "light_argument").sort("op_id", "units")
    assert arguments.select("op_id", "units", "place").rows() == [
        *((op["s0"], Y, 1), (op["s0"], X, 1), (op["z0"], X, 1)),
        *((op["s1"], Y, 1), (op["s1"], X, 1), (op["z1"], X, 1)),
    ]
    given = set(step_frame(trace, "recompute_groups", "given_block").select("op_id", "block_id").rows())
    assert given == {
        *((op["s0"], block["x"]), (op["s0"], block["y0"]), (op["z0"], block["s0"])),
        *((op["s1"], block["x"]), (op["s1"], block["y1"]), (op["z1"], block["s1"])),
    }
    needed = step_frame(trace, "recompute_groups", "needed_block")
    assert set(needed.filter(saved_id=block["z0"]).select("block_id", "is_computed", "is_kept").rows()) == {
        *((block["z0"], True, False), (block["s0"], True, False)),
        *((block["x"], False, True), (block["y0"], False, True)),
    }
    times = step_frame(trace, "recompute_groups", "op_time").select("op_id", "time_ns").rows()
    assert sorted(times) == sorted((op[name], 8000) for name in ("s0", "z0", "s1", "z1"))
