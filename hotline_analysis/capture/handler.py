"""The trace handler: turns a profiler recording into an annotated run and a report."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, get_args

from isal import igzip

from hotline_analysis.atomic import check_replaceable, path_of
from hotline_analysis.capture import need, zeros
from hotline_analysis.capture.background import Format, Work, annotate_and_report, at_exit
from hotline_analysis.capture.learn import Learner, model_ops, opaque
from hotline_analysis.capture.sample import KEY as SAMPLES_KEY
from hotline_analysis.capture.sample import Sampler
from hotline_analysis.capture.several import Learners, arguments_of, several
from hotline_analysis.capture.table import KEY, ModelOps
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer import Source
from hotline_analysis.text.masking import mask

METADATA_KEY = "hotline_metadata"
"""Key of the user's metadata about the training in a trace file."""

When = Literal["background", "now", "later"]
_SUFFIX = ".hotline"


def analyze(
    model: Any | Sequence[Any] | Mapping[str, Any] = None,
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

    The trace goes to `run.json.gz`, the annotated run to `output` (replacing an older run), and the report page to
    `run.html`. With several processes (`torch.distributed`) or a `worker_name`, all names contain the rank or worker
    (`run.rank3.hotline`). Further traces of a repeating schedule are numbered (`run-2.hotline`). Only rank 0 prints and
    writes the page.

    Training continues as soon as the trace is saved: a separate process with low priority annotates the trace. `runs`
    and `wait` of the handler wait for this process, and the program waits for it at exit. Then a few lines of the
    report are printed. With `when="now"`, or if no process can be started, the annotation runs at once in this process.

    `model` is the module called by the training, or several modules in a list or a dict of names. Frozen models count
    too. With several models, module paths start with the model's name (`generator.main.0`): the dict key, or the class
    in a list.

    The model's structure is learned in the first forward pass, which must come before the recording. Leave a warm-up
    step in the schedule, or give `inputs` for one pass, which then runs at once (see `model_ops`). `inputs` is a
    tensor, a tuple of arguments, or a mapping of keyword arguments; for several models, a list or a dict of inputs. The
    hooks are removed after that pass, so the recorded steps run the unmodified program. If the pass cannot be observed,
    the table lists the modules in registration order and says why. The table is stored in the trace itself.

    With `shapes`, the argument shapes of that forward pass and the following backward pass are stored too, unless the
    profiler records shapes (`record_shapes=True`). With `count_zeros`, the zeros in the outputs of ReLUs and max
    pooling are counted after the pass, for `encodings`; `inputs` is then not allowed, because the zeros may differ from
    training.

    With `sample`, a second thread samples the Python stack of this thread about every millisecond, from the first step
    until the recording begins. The trace then shows the user's functions and lines between loading, forward, backward
    and the optimizer (table `sampled_frame`). The thread ends before the first measured step. Sampling needs steps
    before the recording; without a schedule, the first recorded iteration is sampled.

    With `when="later"`, only the trace is saved during training, so that no rank delays the others. Call the handler's
    `finish` afterwards, or use `hotline import` on another machine.

    `report_format` is text, markdown, json, or None for no report. `keep_trace=False` keeps only the run. `batch_size`
    (samples per step of this process), `dataset`, `optimizer` (a name, or the optimizer object) and `metadata` are
    stored in the trace and shown in the report, together with the throughput.

    Raises `ExportExistsError` at once if `output` exists and is not a run. Raises `HotlineError` if `model` is not a
    module, or if one of several models is not a module, is repeated, or has an unusable name. Later errors become a
    `HotlineWarning`, because they must not end the training.
    """
    need.torch()
    if isinstance(model, list | tuple) and len(model) == 1:
        (model,) = model
    if batch_size is not None and batch_size < 1:
        raise HotlineError(f"batch_size is {batch_size}", hint="Give the samples per step, or leave out batch_size.")
    if when not in get_args(When):
        raise HotlineError(f"when must be 'background', 'now' or 'later', not {when!r}")
    values = {"batch_size": batch_size, "dataset": dataset, "optimizer": _optimizer_name(optimizer), **(metadata or {})}
    handler = TraceHandler(
        path_of(output),
        report_format,
        worker_name,
        keep_trace,
        when,
        {name: value for name, value in values.items() if value is not None},
    )
    if count_zeros and (model is None or inputs is not None):
        raise HotlineError(
            "zeros are counted in the model's first forward pass of the training",
            hint="Give the model without inputs, and a warm-up step in the schedule.",
        )
    if model is not None:
        handler.learn(model, inputs, shapes=shapes, count_zeros=count_zeros)
    if sample:
        handler.sample(model)
    return handler


class TraceHandler:
    """The handler returned by `analyze`, called by the profiler with each trace.

    `runs` waits for and lists the written runs. With `when="later"`, `waiting` lists the traces for `finish`.
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
        self._learner: Learner | Learners | None = None
        self._learned: ModelOps | None = None
        self._sampler: Sampler | None = None
        self._count = 0
        check_replaceable(self._name())

    def learn(self, model: Any, inputs: Any = None, *, shapes: bool = True, count_zeros: bool = False) -> None:
        """Learn one or several models: now from these inputs, or from the next forward pass."""
        if (models := several(model)) is not None:
            self._learner = Learners(models, inputs, shapes=shapes, count_zeros=count_zeros)
        elif inputs is None:
            self._learner = Learner(model, shapes=shapes, count_zeros=count_zeros)
        else:
            positional, keywords = arguments_of(inputs)
            self._learned = model_ops(model, *positional, **keywords)
        if self._learned is not None and not shapes:
            self._learned = self._learned.without_shapes()

    def sample(self, model: Any = None) -> None:
        """Sample the Python stack of this thread, later of the thread running the model, until the recording begins."""
        models = [] if model is None else list((several(model) or {"": model}).values())
        self._sampler = Sampler([module for module in models if opaque(module) is None])
        self._sampler.start()

    @property
    def model_ops(self) -> ModelOps | None:
        """The current model-op table; None if no model was given."""
        if self._learner is not None:
            self._learned = self._learner.result()
        return self._learned

    def __call__(self, profiler: Any) -> None:
        """Save, annotate and report the profiler's recording."""
        try:
            self._handle(profiler)
        except (HotlineError, OSError, RuntimeError) as error:  # an error of this package, the disk or the profiler
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
        if (learned := self.model_ops) is not None and learned.not_seen:
            self._say(f"note: {learned.not_seen[0]}")
        if self._when == "later":
            self.waiting.append(trace)
            self._say(f"{trace}: trace, to be annotated later (finish, or hotline import {trace} -o {run})")
        elif self._when == "now" or not self._begin(trace, run):
            self._do(trace, run)

    def _begin(self, trace: Path, run: Path) -> bool:
        """Start a process that annotates and reports the trace. Return False if the process cannot be started."""
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
        """Wait until all traces recorded so far are annotated and reported, and return the runs written so far.

        Errors become a `HotlineWarning`, as during training.
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
        """The runs written so far, after waiting for pending runs."""
        return self.wait()

    def finish(self) -> list[Path]:
        """Annotate and report the traces saved for later, and return all runs written so far.

        Unlike during training, an error raises `HotlineError`. The remaining traces stay in `waiting`.
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
        """Add a written run to the list, and print the text of the report."""
        self._runs.append(run)
        if text:
            print(text, end="", flush=True)

    def _say(self, sentence: str) -> None:
        if self._own_format == "text":
            print(sentence, flush=True)

    @property
    def _own_format(self) -> Format | None:
        """The report format of this process: None on all ranks except 0."""
        return self._format if self._prints else None

    @staticmethod
    def _page(trace: Path) -> Path:
        return trace.with_name(trace.name.removesuffix(".json.gz") + ".html")

    @property
    def _suffix(self) -> str:
        """The part of the output's name after the stem."""
        return self._output.name[len(self._output.name.removesuffix(_SUFFIX)) :]

    def _contents(self, *, with_shapes: bool) -> dict[str, str]:
        """Return the extra content of the trace file: JSON text by key."""
        contents = {}
        if self._metadata:
            metadata = json.loads(json.dumps(self._metadata, default=str))
            mask(metadata)  # for example keys among the program's arguments
            contents[METADATA_KEY] = json.dumps(metadata)
        if (learned := self.model_ops) is not None:
            contents[KEY] = (learned if with_shapes else learned.without_shapes()).to_json()
        if self._sampler is not None:
            contents[SAMPLES_KEY] = json.dumps(self._sampler.result())
        if self._learner is not None and (zeros_pct := self._learner.zeros_pct()):
            contents[zeros.METADATA_KEY] = json.dumps(zeros_pct)
        return contents

    def _name(self, suffix: str | None = None) -> Path:
        """Return the output path, with the trace's number and the worker's name, and with another suffix if given."""
        stem = self._output.name.removesuffix(_SUFFIX)
        if self._count > 1:
            stem += f"-{self._count}"
        if worker := self._worker_name or (f"rank{_rank()}" if _world_size() > 1 else None):
            stem += f".{worker}"
        return self._output.with_name(stem + (self._suffix if suffix is None else suffix))


def pack(source: Path, target: Path, contents: Mapping[str, str]) -> None:
    """Compress an exported trace and insert additional keys (JSON text by key) before the existing keys.

    The profiler's `add_metadata_json` works only while a trace is recorded: too late for the handler, and too early for
    learning the model.
    """
    new_keys = "".join(f"{json.dumps(key)}: {text},\n" for key, text in contents.items())
    packed: IO[bytes] = igzip.open(target, "wb", compresslevel=1)  # type: ignore[no-untyped-call]
    with source.open("rb") as raw, packed as stream:
        start = raw.read(64)
        brace = start.find(b"{") + 1
        stream.write(start[:brace] + b"\n" + new_keys.encode() + start[brace:])
        shutil.copyfileobj(raw, stream, 1 << 20)


def _rank() -> int:
    return int(need.torch("distributed").get_rank()) if _world_size() > 1 else 0


def _world_size() -> int:
    distributed = need.torch("distributed")
    return int(distributed.get_world_size()) if distributed.is_available() and distributed.is_initialized() else 1


def _optimizer_name(optimizer: Any) -> str | None:
    """Return a description of an optimizer object, such as `AdamW (foreach)`. A name is returned unchanged."""
    if optimizer is None or isinstance(optimizer, str):
        return optimizer
    settings = getattr(optimizer, "defaults", {})
    options = [option for option in ("foreach", "fused", "capturable") if settings.get(option)]
    return type(optimizer).__name__ + (f" ({', '.join(options)})" if options else "")
