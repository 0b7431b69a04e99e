"""The handler that turns what the profiler recorded into an annotated run and a report."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal, get_args

from isal import igzip

from hotline_analysis.atomic import check_replaceable, path_of
from hotline_analysis.capture import need, zeros
from hotline_analysis.capture.background import Format, Work, annotate_and_report, at_exit
from hotline_analysis.capture.learn import Learner, model_ops, opaque
from hotline_analysis.capture.sample import KEY as SAMPLES_KEY
from hotline_analysis.capture.sample import Sampler
from hotline_analysis.capture.table import KEY, ModelOps
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer import Source
from hotline_analysis.text.masking import mask

METADATA_KEY = "hotline_metadata"
"""Where a trace file keeps what the user said about the training."""

When = Literal["background", "now", "later"]
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
    when: When = "background",
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

    The trace goes to `run.json.gz`, the annotated run to `output`, which replaces an older run, and the page of the
    report to `run.html`. With several processes (`torch.distributed`) or a `worker_name`, all names get it
    (`run.rank3.hotline`); further traces of a repeating schedule get a number (`run-2.hotline`). Only rank 0 prints and
    writes the page.

    The training goes on as soon as the trace is saved: a process of its own, with low priority, annotates it. `runs`
    and `wait` of the handler wait for this process, and so does the end of the program. Then the answer is printed in
    a few lines. If no process can be started, and with `when="now"`, it is done at once.

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
        raise HotlineError(f"when is {when!r}", hint="It is 'background', 'now' or 'later'.")
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
    """What `analyze` returns: called by the profiler with each trace. `runs` lists the runs, when they are written.

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
        self._runs: list[Path] = []
        self._work: list[Work] = []
        self._at_exit: Any = None
        self._prints = True
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
        if self._learner is not None:
            self._learner.close()
        if self._sampler is not None:
            self._sampler.close()
        self._prints = _rank() == 0
        self._count += 1
        run = self._name()
        run.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=run.parent, prefix=".hotline-") as folder:
            raw = Path(folder, "trace.json")
            profiler.export_chrome_trace(str(raw))
            trace = Path(folder, self._name(".json.gz").name)
            pack(raw, trace, self._contents(with_shapes=not getattr(profiler, "record_shapes", False)))
            raw.unlink()
            trace = trace.replace(self._name(".json.gz"))
        if (learned := self.model_ops) is not None and learned.order != "execution":
            self._say(f"note: {learned.notes[0]}")
        if self._when == "later":
            self.waiting.append(trace)
            self._say(f"{trace}: trace, to be annotated later (finish, or hotline import {trace} -o {run})")
        elif self._when == "now" or not self._begin(trace, run):
            self._do(trace, run)

    def _begin(self, trace: Path, run: Path) -> bool:
        """Start a process that annotates and reports the trace; say whether that is possible."""
        try:
            work = Work(trace, run, page=self._page(trace), report_format=self._own_format, keep_trace=self._keep_trace)
        except (HotlineError, OSError, ValueError):
            return False
        self._work.append(work)
        if self._at_exit is None:
            self._at_exit = at_exit(self._wait_at_exit)
        self._say(f"{trace}: trace saved; annotating it in the background, wait() of the handler waits for it")
        return True

    def wait(self) -> list[Path]:
        """Wait until what was recorded so far is annotated and reported, and return the runs written so far.

        What goes wrong is a `HotlineWarning`, as during the training.
        """
        while self._work:
            work = self._work.pop(0)
            if not work.is_done:
                self._say(f"{work.trace}: waiting for its annotation")
            try:
                self._note(work.run, work.wait())
            except HotlineError as error:
                warnings.warn(f"the trace was not analysed: {error}", HotlineWarning, stacklevel=2)
        if self._at_exit is not None:
            self._at_exit.cancel()
            self._at_exit = None
        return list(self._runs)

    def _wait_at_exit(self) -> None:
        try:
            self.wait()
        except KeyboardInterrupt:
            for work in self._work:
                work.stop()
            self._say("not annotated: interrupted; hotline import annotates the saved trace")

    @property
    def runs(self) -> list[Path]:
        """The runs written so far; those that are being written are waited for."""
        return self.wait()

    def finish(self) -> list[Path]:
        """Annotate and report the traces that were saved for later, and return all runs written so far.

        Unlike what happens during a training, an error is one: a `HotlineError`. What is left waits on.
        """
        while self.waiting:
            trace = self.waiting[0]
            self._do(trace, trace.with_name(trace.name.removesuffix(".json.gz") + self._suffix))
            del self.waiting[0]
        return self.wait()

    def _do(self, trace: Path, run: Path) -> None:
        """Annotate and report a trace in this process."""
        page = self._page(trace)
        self._note(
            run,
            annotate_and_report(trace, run, page=page, report_format=self._own_format, keep_trace=self._keep_trace),
        )

    def _note(self, run: Path, text: str) -> None:
        """Note a run that was written, and print what its report says."""
        self._runs.append(run)
        if text:
            print(text, end="", flush=True)

    def _say(self, sentence: str) -> None:
        if self._own_format == "text":
            print(sentence, flush=True)

    @property
    def _own_format(self) -> Format | None:
        """The form of the report that this process prints: none but on rank 0."""
        return self._format if self._prints else None

    @staticmethod
    def _page(trace: Path) -> Path:
        return trace.with_name(trace.name.removesuffix(".json.gz") + ".html")

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
