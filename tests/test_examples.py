"""The example models train, and the capture script does what its switches say."""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

torch = pytest.importorskip("torch")

import hotline_analysis as ha  # noqa: E402

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
sys.path.insert(0, str(FOLDER))
import capture  # type: ignore[import-not-found]  # noqa: E402  # of the folder above
import capture_all  # type: ignore[import-not-found]  # noqa: E402
from models import EXAMPLES  # type: ignore[import-not-found]  # noqa: E402


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.sampled
def test_every_model_trains_and_is_learned(name: str) -> None:
    example: Any = EXAMPLES[name](4, True, "tiny")
    inputs, targets = example.collate([example.dataset[i] for i in range(4)])
    learned = ha.model_ops(example.model, *inputs)
    example.loss(example.model(*inputs), *targets).backward()
    used = {name for name, parameter in example.model.named_parameters() if parameter.grad is not None}
    held = dict(learned.parameters.select("name", "module_id").iter_rows())
    calls = dict(learned.modules.select("module_id", "calls").iter_rows())
    assert used == {name for name, holder in held.items() if calls[holder]}
    assert learned.ops.height > 0


@pytest.mark.parametrize("twin", capture.TWINS)
def test_switches_win_over_those_of_a_twin(twin: str) -> None:
    args = capture.parse_args(["--twin", twin, "-o", "x.json.gz", "--size", "tiny", "--batch-size", "3"])
    assert (args.size, args.batch_size) == ("tiny", 3)
    assert args.model in EXAMPLES


def test_every_capture_has_valid_switches(tmp_path: Path) -> None:
    wanted = capture_all.jobs("cuda")
    assert len({trace for trace, _ in wanted}) == len(wanted)
    for trace, switches in wanted:
        capture.parse_args([*switches, "-o", str(tmp_path / trace), "--device", "cuda"])
    assert len(capture_all.jobs("cpu")) < len(wanted)


def test_a_capture_tells_nothing_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "dlrm.json.gz"
    switches = shlex.split("dlrm --size tiny --steps 1 --warmup 1 --batch-size 2 --amp --with-stack --accumulate 2")
    monkeypatch.setattr(sys, "argv", ["capture.py", *switches, "-o", str(output)])
    capture.main()
    assert [path.name for path in tmp_path.iterdir()] == ["dlrm.json.gz"]
    text = gzip.decompress(output.read_bytes()).decode()
    for folder in (str(FOLDER), sys.prefix, os.getcwd(), str(tmp_path)):
        assert folder not in text
    with ha.load(output) as trace:
        assert ha.report(trace).facts["batch size"] == "4"
        modules = trace.sql("select count(*) from model_op").item()
    assert modules == sum(module["calls"] > 0 for module in json.loads(text)["hotline_model"]["modules"])


@pytest.mark.parametrize(("script", "needs"), [("hf_trainer.py", "transformers"), ("accelerate_loop.py", "accelerate")])
def test_frameworks_train_and_are_recorded(script: str, needs: str, tmp_path: Path) -> None:
    """Where they are installed; CI does without."""
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    done = subprocess.run([sys.executable, str(FOLDER / script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with ha.load(tmp_path / "run.hotline") as trace:
        assert ha.steps(trace).height == 3
        assert {"forward", "backward", "optimizer"} <= set(ha.phases(trace).filter(pl.col("cpu_ns") > 0)["phase"])
        assert ha.modules(trace).height > 2
