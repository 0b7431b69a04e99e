"""Maps that could be stored in fewer bits, by hand, and those of VGG16 by its architecture."""

# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineError
from tests.trace_builder import TraceBuilder


def training() -> TraceBuilder:
    """A convolution with an in-place ReLU, pooling, a ReLU, a convolution and a gelu; all saved until one node."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("## forward ##", 0, 300)
    ops: tuple[tuple[str, list[int]], ...] = (
        ("aten::conv2d", [6400]),
        ("aten::relu_", []),
        ("aten::max_pool2d", [1600, 3200]),
        ("aten::relu", [800]),
        ("aten::conv2d", [400]),
        ("aten::gelu", [200]),
    )
    address = 0
    for number, (name, sizes) in enumerate(ops):
        trace.op(name, 10 + 20 * number, 25 + 20 * number)
        for place, size in enumerate(sizes):
            address += 1
            trace.memory(size, 15 + 20 * number + place, total=size, address=address)
    trace.annotation("## backward ##", 300, 900)
    trace.op("autograd::engine::evaluate_function: GeluBackward0", 400, 500)
    for each in range(address):
        trace.memory(-1, 450 + each, total=0, address=each + 1)
    return trace


def test_each_map_by_what_makes_and_what_uses_it(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    rows = ha.encodings(trace, zeros_pct=50)
    found = {(row["made_by"], row["used_by"], row["scheme"]): row for row in rows.iter_rows(named=True)}
    numbers = {key: (row["bytes"], row["encoded_bytes"], row["freed_bytes"]) for key, row in found.items()}
    assert numbers == {
        # 1,600 values, a bit each
        ("aten::relu_", "aten::max_pool2d", "binarize"): (6400, 200, 6200),
        # 400 indices of 8 bytes, half a byte each
        ("aten::max_pool2d", "aten::relu", "pool_map"): (3200, 200, 3000),
        ("aten::max_pool2d", "aten::relu", "half"): (1600, 800, 800),
        # 200 values, of which 100 are left, with 5 bytes each
        ("aten::relu", "aten::conv2d", "sparse"): (800, 500, 300),
        ("aten::conv2d", "aten::gelu", "half"): (400, 200, 200),
        ("aten::gelu", None, "half"): (200, 100, 100),
    }
    sparse = found["aten::relu", "aten::conv2d", "sparse"]
    assert (sparse["is_lossless"], sparse["break_even_zeros_pct"]) == (True, pytest.approx(20))
    assert not found["aten::conv2d", "aten::gelu", "half"]["is_lossless"]


def test_zeros_are_not_guessed(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    sparse = ha.encodings(trace).filter(scheme="sparse").row(0, named=True)
    assert (sparse["encoded_bytes"], sparse["freed_bytes"]) == (None, None)
    below = ha.encodings(trace, zeros_pct=10).filter(scheme="sparse").row(0, named=True)
    assert (below["encoded_bytes"], below["freed_bytes"]) == (900, 0)


def test_the_maps_of_vgg16_are_those_of_its_architecture(tmp_path: Path) -> None:
    """Configuration D of Simonyan and Zisserman (2015), on pictures of 32 x 32, in batches of two."""
    torch = pytest.importorskip("torch")
    from torch import nn

    widths = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
    layers: list[nn.Module] = []
    before = 3
    for block in widths:
        for width in block:
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))
    file = tmp_path / "trace.json"
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
        profile_memory=True,
    ) as profiler:
        for _ in range(2):
            model.zero_grad()
            model(torch.randn(2, 3, 32, 32)).sum().backward()
            profiler.step()
    with ha.load(file) as trace:
        rows = ha.encodings(trace, zeros_pct=50)
    found = {scheme: int(rows.filter(scheme=scheme)["bytes"].sum()) for scheme in ("binarize", "pool_map", "sparse")}
    values = [2 * (32 >> number) ** 2 * block[0] for number, block in enumerate(widths)]
    assert found["binarize"] == sum(4 * count for count in values)
    assert found["pool_map"] == sum(8 * count // 4 for count in values)
    inner = sum(4 * count * (len(block) - 1) for count, block in zip(values, widths, strict=True))
    assert found["sparse"] == inner + sum(4 * count // 4 for count in values)
    freed = rows.filter("is_lossless").select("bytes", "encoded_bytes").sum().row(0)
    assert freed[1] == pytest.approx(
        found["binarize"] / 32 + found["pool_map"] / 16 + found["sparse"] * 5 / 8, rel=0.01
    )


def test_zeros_that_the_capture_counted(tmp_path: Path) -> None:
    """Behind functional and in-place ReLUs, by module; the oracle counts in the convolutions that read them."""
    torch = pytest.importorskip("torch")
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 3, bias=False)

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.second(nn.functional.relu(self.first(x) - 0.1))

    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(Block(), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))

    expected = {}

    def count(path: str) -> Any:
        def hook(_: Any, inputs: tuple[Any, ...]) -> None:
            expected[path] = 100 * (inputs[0] == 0).double().mean().item()

        return hook

    captured = {}
    for counts in (False, True):
        trained = model()
        handler = ha.analyze(
            trained, tmp_path / f"{counts}.hotline", count_zeros=counts, report_format=None, when="now"
        )
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=handler,
            profile_memory=True,
        ) as profiler:
            for _ in range(2):
                torch.manual_seed(1)
                trained(torch.randn(2, 3, 16, 16)).sum().backward()
                profiler.step()
        captured[counts] = handler.model_ops
    oracle = model()
    oracle[0].second.register_forward_pre_hook(count("0"))  # type: ignore[index, union-attr, operator]
    oracle[3].register_forward_pre_hook(count("2"))  # type: ignore[index, union-attr, operator]
    torch.manual_seed(1)
    oracle(torch.randn(2, 3, 16, 16))
    assert captured[True] == captured[False]  # what is learned of the model is not disturbed
    with ha.load(tmp_path / "True.hotline") as trace, ha.load(tmp_path / "False.hotline") as without:
        rows = ha.encodings(trace).filter(scheme="sparse")
        assert ha.encodings(without).filter(scheme="sparse")["zeros_pct"].to_list() == [None, None]
        given = ha.encodings(trace, zeros_pct=10).filter(scheme="sparse")["zeros_pct"].to_list()
    assert given == [10, 10]
    paths = [(path or "").removeprefix("Sequential.") for path in rows["module_path"]]
    found = dict(zip(paths, rows["zeros_pct"], strict=True))
    assert found == {path: pytest.approx(share) for path, share in expected.items()}
    assert min(expected.values()) > 1
    for size, share, encoded in rows.select("bytes", "zeros_pct", "encoded_bytes").iter_rows():
        assert encoded == pytest.approx(size / 4 * 5 * (1 - share / 100), abs=1)


def test_zeros_are_counted_in_the_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(HotlineError, match="first forward pass"):
        ha.analyze(None, tmp_path / "run.hotline", count_zeros=True)


@pytest.mark.parametrize("said", ["[1, 2]", '{"a": "x", "b": -1, "a": 7}', '"text"', "null", '{"a": {"b": 5}}'])
def test_damaged_zeros_are_none(tmp_path: Path, said: str) -> None:
    text = training().text().replace('"traceEvents"', f'"hotline_zeros_pct": {said}, "traceEvents"', 1)
    (tmp_path / "trace.json").write_text(text)
    with ha.load(tmp_path / "trace.json") as trace:
        assert ha.encodings(trace).filter(scheme="sparse")["zeros_pct"].to_list() == [None]


def convolutional(network: list[tuple[str, int]]) -> TraceBuilder:
    """A network of (layer, values of its result): what PyTorch saves of it, in four-byte values."""
    trace = TraceBuilder(rank=0).step(0, 0, 10_000).annotation("## forward ##", 0, 3000)
    blocks: list[int] = []
    for number, (layer, values) in enumerate(network):
        at = 10 + 40 * number
        op = {"conv": "aten::conv2d", "pool": "aten::max_pool2d", "linear": "aten::linear"}[layer]
        trace.op(op, at, at + 10)
        for size in (4 * values, *([8 * values] if layer == "pool" else [])):
            blocks.append(size)
            trace.memory(size, at + len(blocks) % 5 + 1, total=sum(blocks), address=len(blocks))
        if layer != "pool":
            trace.op("aten::relu_", at + 12, at + 20)
    trace.annotation("## backward ##", 3000, 9000)
    trace.op("autograd::engine::evaluate_function: ReluBackward0", 4000, 8000)
    for number, size in enumerate(blocks):
        left = sum(blocks[number + 1 :])
        trace.memory(-size, 4100 + number, total=left, address=number + 1)
    return trace


VGG16 = [
    layer
    for side, width, depth in ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3))
    for layer in [*[("conv", side * side * width)] * depth, ("pool", side * side * width // 4)]
] + [("linear", 4096), ("linear", 4096)]
"""Values of each result for one picture: configuration D of Simonyan and Zisserman (2015), in-place ReLUs."""
ALEXNET = [
    *(("conv", 55 * 55 * 64), ("pool", 27 * 27 * 64), ("conv", 27 * 27 * 192), ("pool", 13 * 13 * 192)),
    *(("conv", 13 * 13 * 384), ("conv", 13 * 13 * 256), ("conv", 13 * 13 * 256), ("pool", 6 * 6 * 256)),
    *(("linear", 4096), ("linear", 4096)),
]
"""Likewise, of Krizhevsky (2014), as torchvision has it."""


@pytest.mark.parametrize("network", [VGG16, ALEXNET], ids=["vgg16", "alexnet"])
@pytest.mark.parametrize("zeros_pct", [None, 50.0, 80.0])
def test_the_total_of_a_network_by_hand(
    tmp_path: Path, network: list[tuple[str, int]], zeros_pct: float | None
) -> None:
    """Bits of a value by Gist's rules (Jain et al., ISCA 2018): 32 become 1 before pooling, 40 per value that is not 0.

    Gist's factors (up to 2, on average 1.8 with lossy encodings) are of the whole footprint in CNTK, with what lives
    for a moment and without indices of pooling; here `ratio` is of the maps that PyTorch saves, its int64 indices (64
    bits become 4) among them, and so larger.
    """
    maps = after = 0.0
    for number, (layer, values) in enumerate(network):
        following = network[number + 1][0] if number + 1 < len(network) else ""
        bits = 32.0
        if layer != "pool" and following == "pool":
            bits = 1
        elif following and zeros_pct is not None:
            bits = min(32, 40 * (1 - zeros_pct / 100))
        maps += 4 * values
        after += bits / 8 * values
        if layer == "pool":
            maps += 8 * values
            after += values / 2
    with convolutional(network).load(tmp_path) as trace:
        rows = ha.encodings_total(trace, zeros_pct=zeros_pct)
    lossless, all_of_them = rows.iter_rows(named=True)
    assert (lossless["schemes"], all_of_them["schemes"]) == ("lossless", "all")
    assert lossless["bytes"] == maps == lossless["peak_bytes"]
    assert lossless["encoded_bytes"] == pytest.approx(after, abs=len(network))
    assert lossless["ratio"] == pytest.approx(maps / after, rel=1e-6)
    assert lossless["peak_ratio"] == pytest.approx(lossless["ratio"])
    assert all_of_them["ratio"] >= lossless["ratio"]
