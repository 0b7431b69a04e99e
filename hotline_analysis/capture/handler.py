"""The handler that turns what the profiler recorded into an annotated run and a report."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal, get_args

from isal import igzip

from hotline_analysis.atomic import check_replaceable, path_of
from hotline_analysis.capture import need, zeros
from hotline_analysis.capture.learn import Learner, model_ops, opaque
from hotline_analysis.capture.sample import KEY as SAMPLES_KEY
from hotline_analysis.capture.sample import Sampler
from hotline_analysis.capture.table import KEY, ModelOps
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer import Source, import_traces
from hotline_analysis.reports import Report, report
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.masking import mask

METADATA_KEY = "hotline_metadata"
"""Where a trace file keeps what the user said about the training."""

Format = Literal["text", "markdown", "json"]
When = Literal["now", "later"]
_SUFFIX = ".hotline"


def analyze(
    model: Any = None,
    output: Source = "run.hotline",
    *,
    inputs: Any = None,
    shapes: bool = True,
    count_zeros: bool = False,
    sample: bool = True,
    report_format: Format | None = "text",
    worker_name: str | None = None,
    keep_trace: bool = True,
    when: When = "now",
    batch_size: int | None = None,
    dataset: str | None = None,
    optimizer: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> TraceHandler:
    """Return a handler for `torch.profiler.profile(on_trace_ready=…)` that saves, annotates and reports the trace.

        with torch.profiler.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=3),
                                    on_trace_ready=hotline_analysis.analyze(model)) as prof:
            for batch in loader:
                train(batch)
                prof.step()

    The trace goes to `run.json.gz` and the annotated run to `output`, which replaces an older run. With several
    processes (`torch.distributed`) or a `worker_name`, both names get it (`run.rank3.hotline`); further traces of a
    repeating schedule get a number (`run-2.hotline`). Only rank 0 prints.

    The model's structure is learned in its first forward pass, which must come before the recording: leave the
    profiler a warm-up step, or give the `inputs` of one pass (a tensor, a tuple of arguments, or a mapping of keyword
    arguments), which is then run at once, see `model_ops`. The hooks of that pass are removed when it ends, so the
    recorded steps run the program as it is. If it cannot be learned, the table has the modules in the order of their
    registration, and says why. It is stored in the trace itself. With `shapes`, so are the shapes of the arguments of
    that pass and of the backward pass after it, unless the profiler records them itself (`record_shapes=True`). With
    `count_zeros`, the zeros in what its ReLUs and max pooling return are counted when the pass is over, for
    `encodings`; `inputs` cannot be given then, as their zeros need not be those of the training.

    With `sample`, a second thread samples the python stack of this thread until the recording begins, about every
    millisecond from the first step on: the trace then knows which functions and lines of the user run between loading,
    forward, backward and the optimizer (the table `sampled_frame`). The thread is gone before anything is recorded, so
    it needs steps before the recording, too.

    With `when="later"`, only the trace is saved while the training runs, so that no rank keeps others waiting; call
    `finish` of the handler after it, or `hotline import` elsewhere.

    `report_format` is text, markdown, json, or None for no report. `keep_trace=False` keeps only the run. `batch_size`
    (samples that one step of this process trains on), `dataset`, `optimizer` (a name, or the object) and `metadata`
    are stored with the trace and shown in the report, with the throughput. Raises `ExportExistsError` at once if
    `output` is something else than a run, and `HotlineError` if `model` is no module; what goes wrong later is a
    `HotlineWarning`: it must not end a training.
    """
    need.torch()
    if batch_size is not None and batch_size < 1:
        raise HotlineError(f"batch_size is {batch_size}", hint="Give the samples per step, or leave it out.")
    if when not in get_args(When):
        raise HotlineError(f"when is {when!r}", hint="It is 'now' or 'later'.")
    said = {"batch_size": batch_size, "dataset": dataset, "optimizer": _optimizer_name(optimizer), **(metadata or {})}
    handler = TraceHandler(
        path_of(output),
        report_format,
        worker_name,
        keep_trace,
        when,
        {name: value for name, value in said.items() if value is not None},
    )
    if count_zeros and (model is None or inputs is not None):
        raise HotlineError(
            "zeros are counted in the model's first forward pass of the training",
            hint="Give the model and no inputs, and a warm-up step in the schedule.",
        )
    if model is not None:
        handler.learn(model, inputs, shapes=shapes, count_zeros=count_zeros)
    if sample:
        handler.sample(model)
    return handler


class TraceHandler:
    """What `analyze` returns: called by the profiler with each trace. `runs` lists the runs written so far.

    With `when="later"`, `waiting` lists the traces that `finish` will annotate.
    """

    def __init__(
        self,
        output: Path,
        report_format: Format | None,
        worker_name: str | None,
        keep_trace: bool,
        when: When,
        metadata: Mapping[str, Any],
    ) -> None:
        self.runs: list[Path] = []
        self.waiting: list[Path] = []
        self._when = when
        self._output = output
        self._format = report_format
        self._worker_name = worker_name
        self._keep_trace = keep_trace
        self._metadata = metadata
        self._learner: Learner | None = None
        self._learned: ModelOps | None = None
        self._sampler: Sampler | None = None
        self._count = 0
        check_replaceable(self._name())

    def learn(self, model: Any, inputs: Any = None, *, shapes: bool = True, count_zeros: bool = False) -> None:
        """Learn the model from these inputs now, or from its next forward pass."""
        if inputs is None:
            self._learner = Learner(model, shapes=shapes, count_zeros=count_zeros)
        elif isinstance(inputs, Mapping):
            self._learned = model_ops(model, **inputs)
        else:
            self._learned = model_ops(model, *(inputs if isinstance(inputs, tuple | list) else (inputs,)))
        if self._learned is not None and not shapes:
            self._learned = self._learned.without_shapes()

    def sample(self, model: Any = None) -> None:
        """Sample the python stack of this thread, and later of the thread that runs the model, until the recording."""
        self._sampler = Sampler([model] if model is not None and opaque(model) is None else [])
        self._sampler.start()

    @property
    def model_ops(self) -> ModelOps | None:
        """What is known of the model now; None if none was given."""
        if self._learner is not None:
            self._learned = self._learner.result()
        return self._learned

    def __call__(self, profiler: Any) -> None:
        """Save, annotate and report what the profiler recorded."""
        try:
            self._handle(profiler)
        except (HotlineError, OSError, RuntimeError) as error:  # ours, the disk's, the profiler's
            warnings.warn(f"the trace was not analysed: {error}", HotlineWarning, stacklevel=2)

    def _handle(self, profiler: Any) -> None:
        began = time.perf_counter()
        if self._learner is not None:
            self._learner.close()
        if self._sampler is not None:
            self._sampler.close()
        self._count += 1
        run = self._name()
        run.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=run.parent, prefix=".hotline-") as folder:
            raw = Path(folder, "trace.json")
            profiler.export_chrome_trace(str(raw))
            trace = Path(folder, self._name(".json.gz").name)
            pack(raw, trace, self._contents(with_shapes=not getattr(profiler, "record_shapes", False)))
            raw.unlink()
            if self._keep_trace or self._when == "later":
                trace = trace.replace(self._name(".json.gz"))
            if self._when == "now":
                import_traces(trace, run, overwrite=True)
        if self._when == "now":
            self._tell(run, trace, began)
            return
        self.waiting.append(trace)
        if self._format == "text" and _rank() == 0:
            print(f"{trace}: trace, to be annotated later (finish, or hotline import {trace} -o {run})")

    def finish(self) -> list[Path]:
        """Annotate and report the traces that were saved for later, and return all runs written so far.

        Unlike what happens during a training, an error is one: a `HotlineError`. What is left waits on.
        """
        while self.waiting:
            began = time.perf_counter()
            trace = self.waiting[0]
            run = trace.with_name(trace.name.removesuffix(".json.gz") + self._suffix)
            import_traces(trace, run, overwrite=True)
            del self.waiting[0]
            if not self._keep_trace:
                trace.unlink()
            self._tell(run, trace, began)
        return list(self.runs)

    def _tell(self, run: Path, trace: Path, began: float) -> None:
        """Note a run that was written, and report it."""
        self.runs.append(run)
        if self._format is None or _rank() != 0:
            return
        with Trace(run) as opened:
            print(_rendered(report(opened), self._format))
        if self._format == "text":
            kept = f" of {trace}" if self._keep_trace else ""
            print(f"{run}: annotated run{kept}, written in {time.perf_counter() - began:.1f} s")

    @property
    def _suffix(self) -> str:
        """What the name of the output has behind its stem."""
        return self._output.name[len(self._output.name.removesuffix(_SUFFIX)) :]

    def _contents(self, *, with_shapes: bool) -> dict[str, str]:
        """What is stored in the trace: JSON by key."""
        contents = {}
        if self._metadata:
            said = json.loads(json.dumps(self._metadata, default=str))
            mask(said)  # such as keys among the arguments of the program
            contents[METADATA_KEY] = json.dumps(said)
        if (learned := self.model_ops) is not None:
            contents[KEY] = (learned if with_shapes else learned.without_shapes()).to_json()
        if self._sampler is not None:
            contents[SAMPLES_KEY] = json.dumps(self._sampler.result())
        if self._learner is not None and (zeros_pct := self._learner.zeros_pct()):
            contents[zeros.METADATA_KEY] = json.dumps(zeros_pct)
        return contents

    def _name(self, suffix: str | None = None) -> Path:
        """The output, or a file beside it with another suffix, with the trace's number and the worker's name."""
        stem = self._output.name.removesuffix(_SUFFIX)
        if self._count > 1:
            stem += f"-{self._count}"
        if worker := self._worker_name or (f"rank{_rank()}" if _world_size() > 1 else None):
            stem += f".{worker}"
        return self._output.with_name(stem + (self._suffix if suffix is None else suffix))


def pack(source: Path, target: Path, contents: Mapping[str, str]) -> None:
    """Compress an exported trace, with further keys (JSON by key) before its own.

    The profiler's own `add_metadata_json` would not do: it only counts while a trace is recorded, which is over when
    the handler is called, and not begun when the model is learned.
    """
    added = "".join(f"{json.dumps(key)}: {text},\n" for key, text in contents.items())
    packed: IO[bytes] = igzip.open(target, "wb", compresslevel=1)  # type: ignore[no-untyped-call]
    with source.open("rb") as raw, packed as out:
        start = raw.read(64)
        brace = start.find(b"{") + 1
        out.write(start[:brace] + b"\n" + added.encode() + start[brace:])
        shutil.copyfileobj(raw, out, 1 << 20)


def _rendered(made: Report, wanted: Format) -> str:
    if wanted == "markdown":
        return made.to_markdown()
    if wanted == "json":
        return made.to_json()
    return made.to_text(color=sys.stdout.isatty())


def _rank() -> int:
    return int(need.torch("distributed").get_rank()) if _world_size() > 1 else 0


def _world_size() -> int:
    distributed = need.torch("distributed")
    return int(distributed.get_world_size()) if distributed.is_available() and distributed.is_initialized() else 1


def _optimizer_name(optimizer: Any) -> str | None:
    """`AdamW (foreach)` of an optimizer object; a name as it is."""
    if optimizer is None or isinstance(optimizer, str):
        return optimizer
    settings = getattr(optimizer, "defaults", {})
    ways = [way for way in ("foreach", "fused", "capturable") if settings.get(way)]
    return type(optimizer).__name__ + (f" ({', '.join(ways)})" if ways else "")
