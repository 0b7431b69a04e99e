"""The sampler of a capture: what it learns, that it ends with the warm-up, and that it never fails a training."""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import functools
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.profiler import profile, schedule  # noqa: E402
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate  # noqa: E402

import hotline_analysis as ha  # noqa: E402
from hotline_analysis.capture import sample  # noqa: E402
from hotline_analysis.database import install_macros  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")

BUSY_S = 0.08


@pytest.fixture(autouse=True)
def no_sampler_is_left() -> Iterator[None]:
    yield
    sample._close_all()
    assert threads() == []


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == sample._NAME]


def busy(seconds: float = BUSY_S) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def save_grid() -> None:
    busy()


class Photos(Dataset[Tensor]):
    """Each of its items takes long."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, _: int) -> Tensor:
        self.augment()
        return torch.ones(3)

    def augment(self) -> None:
        busy(BUSY_S / 4)


def train(
    handler: Callable[[Any], None], model: nn.Module, after_step: Callable[[], object] = save_grid, wait: int = 1
) -> list[list[str]]:
    """Two steps before the recording (or one), and two in it; return the samplers that are there in each step."""
    optimizer = torch.optim.SGD(model.parameters())
    seen = []
    loader = iter(DataLoader(Photos(), batch_size=2))
    with profile(schedule=schedule(wait=wait, warmup=1, active=2, repeat=1), on_trace_ready=handler) as profiler:
        for _ in range(wait + 3):
            seen.append(threads())
            batch = next(loader)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), torch.zeros(2, 2))
            loss.backward()
            optimizer.step()
            after_step()
            seen[-1] += threads()
            profiler.step()
    return seen


def stored(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content


def samples(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = stored(path)["hotline_samples"]
    return content


def handler_of(model: nn.Module | None, folder: Path, **more: Any) -> Any:
    return ha.analyze(model, folder / "run.hotline", report_format=None, when="later", **more)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_functions_have_a_name_and_a_line_by_the_marks_around_them(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    train(handler, model)
    handler.finish()
    with ha.load(handler.runs[0]) as run:
        frames = run.sql("select * from sampled_frame")
    top = frames.filter(frames["is_user"] & ~frames["is_loop"]).sort("sample_count", descending=True)
    between = top.filter(top["inside_mark"].is_null() & (top["after_mark"] == "optimizer"))
    # `busy` is where the time is spent, and `save_grid` is what the step calls.
    by_name = {row["function"]: row for row in between.iter_rows(named=True)}
    assert by_name["busy"]["sample_count"] >= 0.9 * by_name["busy"]["gap_sample_count"]
    assert by_name["save_grid"]["inclusive_count"] >= 0.9 * by_name["save_grid"]["gap_sample_count"]
    assert by_name["save_grid"]["line"] == line_of("busy()")
    assert by_name["save_grid"]["file"] == __file__
    loading = {row["function"]: row for row in top.filter(inside_mark="load_data").iter_rows(named=True)}
    assert loading["Photos.augment"]["line"] == line_of("busy(BUSY_S / 4)")
    callers = frames.filter("is_caller").select("inside_mark", "function", "line").rows()
    assert ("load_data", "train", line_of("batch = next(loader)")) in callers


def test_the_sampler_is_gone_in_the_recorded_steps(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    seen = train(handler, model)
    assert [bool(step) for step in seen] == [True, True, False, False]
    assert torch.autograd.profiler._run_on_profiler_start.__module__ == "torch.autograd.profiler"
    assert not model._forward_pre_hooks


def test_the_first_step_is_sampled_with_its_loader_and_without_a_model(tmp_path: Path) -> None:
    handler = handler_of(None, tmp_path)
    train(handler, nn.Linear(3, 2), wait=0)
    places = {(frame["after"], frame["inside"]) for frame in samples(handler.waiting[0])["frames"]}
    assert ("optimizer", "load_data") in places
    assert ("optimizer", None) in places


class Remote(Dataset[Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.02)
        return torch.ones(3)


def pad(rows: list[Tensor], size: int) -> Tensor:
    return torch.stack(rows)[:size]


def test_a_wait_for_workers_is_time_of_the_code_that_they_run(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    loader = iter(DataLoader(Remote(), batch_size=4, num_workers=1))
    with profile(schedule=schedule(wait=2, warmup=1, active=1, repeat=1), on_trace_ready=handler) as profiler:
        for _ in range(5):
            model(next(loader)).sum().backward()
            profiler.step()
    frames = [frame for frame in samples(handler.waiting[0])["frames"] if frame["inside"] == "load_data"]
    first = max((frame for frame in frames if frame["is_user"]), key=lambda frame: frame["count"])
    assert (first["function"], first["is_caller"]) == ("Remote.__getitem__", False)
    assert first["line"] == line_of("class Remote(Dataset[Tensor]):") + 4
    assert line_of("model(next(loader)).sum().backward()") in {frame["line"] for frame in frames if frame["is_caller"]}


@pytest.mark.parametrize(
    ("dataset", "collate", "name"),
    [
        (Remote(), default_collate, "Remote.__getitem__"),
        (Subset(Remote(), [1]), functools.partial(pad, size=2), "Remote.__getitem__ or pad"),
        (TensorDataset(torch.ones(3)), pad, "pad"),
        (TensorDataset(torch.ones(3)), default_collate, None),
        (None, None, None),
    ],
)
def test_workers_run_the_dataset_and_the_collate_function(dataset: Any, collate: Any, name: str | None) -> None:
    sampler = sample.Sampler()
    sampler._classify = sample._classifier()
    entry = sampler._code_of_workers(SimpleNamespace(_dataset=dataset, _collate_fn=collate))
    assert (entry and entry.name) == name
    assert sampler._code_of_workers(SimpleNamespace(_dataset=dataset, _collate_fn=collate)) is entry
    assert sampler._code_of_workers(None) is None


def test_it_can_be_left_out(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path, sample=False)
    assert train(handler, model) == [[]] * 4
    assert "hotline_samples" not in stored(handler.waiting[0])


@pytest.mark.parametrize("has_step", [True, False])
@pytest.mark.parametrize("is_given", [True, False])
def test_without_a_schedule_the_first_iteration_is_sampled(tmp_path: Path, has_step: bool, is_given: bool) -> None:
    """Answers leave the first iteration out as a warm-up. `profile.step()` ends it, else the next batch or pass."""
    model = nn.Linear(3, 2)
    handler = handler_of(model if is_given else None, tmp_path)
    optimizer = torch.optim.SGD(model.parameters())
    loader = iter(DataLoader(Photos(), batch_size=2))
    original = profile.step
    seen = []
    with profile(on_trace_ready=handler) as profiler:
        for _ in range(3):
            images = next(loader)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(images), torch.zeros(2, 2))
            seen.append(bool(threads()))
            loss.backward()
            optimizer.step()
            save_grid()
            if has_step:
                profiler.step()
                seen[-1] |= bool(threads())
    assert seen == [True, False, False]
    assert profile.step is original
    assert not model._forward_pre_hooks
    frames = samples(handler.waiting[0])["frames"]
    names = {frame["function"] for frame in frames if frame["is_user"]}
    assert {"Photos.augment", "save_grid"} <= names
    (line,) = [frame["line"] for frame in frames if frame["is_caller"] and frame["inside"] == "load_data"]
    assert line == line_of("images = next(loader)")


def test_inference_without_a_schedule_ends_with_the_second_pass(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    seen = []
    with torch.no_grad(), profile(on_trace_ready=handler):
        for _ in range(3):
            busy()
            model(torch.ones(2, 3))
            seen.append(bool(threads()))
            busy()
    assert seen == [True, False, False]


def test_stacks_of_the_trace_are_enough(tmp_path: Path) -> None:
    handler = handler_of(nn.Linear(3, 2), tmp_path)
    with profile(on_trace_ready=handler, with_stack=True):
        busy()
        assert threads() == []


def test_a_recording_of_nothing_has_a_note(tmp_path: Path) -> None:
    handler = handler_of(nn.Linear(3, 2), tmp_path)
    with profile(on_trace_ready=handler):
        pass
    content = samples(handler.waiting[0])
    assert (content["frames"], content["samples"]) == ([], 0)
    assert "warmup=1" in content["notes"][0]


def multiply() -> None:
    """As long as `busy`, in ops, which give the GIL away."""
    square = torch.ones(64, 64)
    end = time.perf_counter() + BUSY_S
    while time.perf_counter() < end:
        for _ in range(20):
            square @ square


def test_python_counts_as_much_as_ops_though_it_keeps_the_gil(tmp_path: Path) -> None:
    """Two functions take as long. Of samples alone, the one in python would have a seventh."""
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)

    def both() -> None:
        busy()
        multiply()

    train(handler, model, both, wait=3)
    counts = {
        frame["function"]: frame["inclusive"]
        for frame in samples(handler.waiting[0])["frames"]
        if frame["is_user"] and (frame["after"], frame["inside"]) == ("optimizer", None)
    }
    assert 0.22 <= counts["busy"] / (counts["busy"] + counts["multiply"]) <= 0.78


def test_a_closure_counts_as_what_it_calls(tmp_path: Path) -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            busy()
            return x

    model = nn.Sequential(nn.Linear(3, 2), Slow())
    optimizer = torch.optim.SGD(model.parameters())
    handler = handler_of(model, tmp_path)

    def closure() -> Tensor:
        loss = model(torch.ones(2, 3)).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    with profile(on_trace_ready=handler):
        optimizer.step(closure)
    marks = {frame["inside"] for frame in samples(handler.waiting[0])["frames"] if frame["function"] == "busy"}
    assert marks == {"forward"}


def test_the_thread_that_runs_the_model_is_sampled(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    worker = threading.Thread(target=train, args=(handler, model))
    worker.start()
    worker.join()
    assert "save_grid" in {frame["function"] for frame in samples(handler.waiting[0])["frames"]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("error")
def test_a_fork_sees_one_thread_and_the_next_pass_is_sampled_again(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    model(torch.ones(2, 3))
    assert len(threads()) == 1
    if not (child := os.fork()):
        os._exit(len(threads()))
    assert os.waitpid(child, 0)[1] == 0
    assert threads() == []
    model(torch.ones(2, 3))
    assert len(threads()) == 1
    with profile(on_trace_ready=handler):
        assert threads() == []


def test_an_error_of_the_sampler_ends_only_the_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no")

    monkeypatch.setattr(sample.Sampler, "_count", fail)
    model = nn.Linear(3, 2)
    handler = handler_of(model, tmp_path)
    assert [bool(step) for step in train(handler, model)][2:] == [False, False]
    assert samples(handler.waiting[0])["notes"] == ["sampling the python stack failed"]


def test_an_exception_of_the_training_is_the_users(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("of the user")

    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="of the user"):
        train(handler_of(model, tmp_path), model, after_step=fail)


def test_steps_without_samples_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends after ten minutes, and a training that is never recorded goes on for days."""
    sampler = sample.Sampler()
    monkeypatch.setattr(sample.Sampler, "_watch", lambda self: None)
    sampler.start()
    sampler._is_counting = True
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(100):
        optimizer.step()
    assert [run.inside for run in sampler._runs] == ["optimizer"]
    sampler.close()
    optimizer.step()
    assert not sampler._optimizer_hooks


def test_what_is_stored_has_a_bound() -> None:
    known = [
        sample._Code(compile(f"x = {number}", f"{number}.py", "exec"), None, None, True, False, False)
        for number in range(3000)
    ]
    marks = ["forward", None, "backward", None, "optimizer", None, "loss", None]
    runs = []
    for number in range(3000):
        run = sample._Run(marks[number % 8])
        run.stacks.update([sample._Stack(((known[number], 1),), 0, (known[-number], 1))])
        runs.append(run)
    assert len(sample._frames(runs)) <= 60 * 30
    assert len(json.dumps(sample._frames(runs))) < 500_000


IN_A_PROCESS = """
import os, signal, sys, threading, time
import torch
import hotline_analysis as ha

model = torch.nn.Linear(3, 2)
handler = ha.analyze(model, sys.argv[1], report_format=None, when="later")
model(torch.ones(2, 3))
{body}
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", -2),
        ("raise SystemExit(3)", 3),
        ("print(len(threading.enumerate()))", 0),
    ],
    ids=["ctrl-c", "exit", "end"],
)
def test_a_process_ends_as_it_would_without(body: str, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", IN_A_PROCESS.format(body=body), str(tmp_path / "run.hotline")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    assert "Fatal" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_model_is_compiled_once(tmp_path: Path) -> None:
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = torch.compile(nn.Linear(3, 2), backend=backend)
    handler = handler_of(model, tmp_path)
    train(handler, model)
    assert len(graphs) == 1
    assert "save_grid" in {frame["function"] for frame in samples(handler.waiting[0])["frames"]}


@pytest.mark.parametrize(
    "file",
    [
        *("/home/someone/work/train.py", "/home/someone/python/train.py", "/home/nvidia/train.py"),
        *("/tmp/ipykernel_17/12345.py", "<ipython-input-3-0a1b>"),
        *("/opt/env/lib/python3.12/site-packages/mine/net.py", "/usr/lib/python3/dist-packages/yaml/__init__.py"),
        *("/opt/env/lib/python3.12/site-packages/torch/optim/adam.py", torch.__file__, ha.__file__),
        *("/opt/env/lib/python3.12/runpy.py", "/usr/lib64/python3.9/logging/__init__.py", threading.__file__),
        *("/tmp/torchinductor_root/zk/c" + "a2" * 25 + "b.py", "<string>", "<frozen runpy>", "<eval_with_key>.7"),
    ],
)
def test_the_files_of_the_user_are_those_of_a_trace(file: str) -> None:
    """The sampler and `code_origin` of the queries decide alike on complete paths."""
    with duckdb.connect() as connection:
        install_macros(connection, ["code_origin"])
        # The folder of this checkout is no installed package, although this package is in it.
        path = file if file != ha.__file__ else f"/usr/lib/python3/dist-packages/hotline_analysis/{Path(file).name}"
        (origin,) = connection.execute("select code_origin(?)", [path]).fetchall()[0]
    code = compile("", file, "exec")
    assert sample._classifier()(code, None).is_user == (origin == "user")
