"""Sample the Python stack of the training thread before the recording: the functions running between marks.

A second thread takes the samples, so the program runs unmodified. The thread ends before the profiler records a step
used in answers. If no iteration precedes the recording, the first recorded iteration is sampled; all answers treat that
iteration as warm-up.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import sys
import sysconfig
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import getattr_static
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hotline_analysis.capture import need
from hotline_analysis.capture.recording import close_before_recording, closed, forget_all

KEY = "hotline_samples"
"""Key of the sample counts in a trace file."""

VERSION = 1
_INTERVAL_S = 0.001
_WAITING_INTERVAL_S = 0.01  # until the first mark; samples before the first mark are not counted
_LONGEST_S = 600.0  # time limit for a program that never records
_FULL_RATE_S = 10.0  # the interval grows after this time: a tenfold duration adds 2.3 times the samples so far
_DEEPEST = 400  # frames; deeper stacks are recursion
_MOST_PLACES = 60  # number of stored places (pairs of marks), by number of samples
_MOST_FUNCTIONS = 12  # per place
_NAME = "hotline_analysis.sampler"

_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_WORK_OF_OURS = tuple(
    os.path.join(_OWN, "capture", file) for file in ("handler.py", "learn.py", "several.py", "shapes.py", "zeros.py")
)

# Files of torch whose frames are marks: all functions of a file (None), or the named functions.
_MARKS: dict[str, dict[str | None, str]] = {
    "utils/data/dataloader.py": {None: "load_data"},
    "_tensor.py": {"backward": "backward"},
    "autograd/__init__.py": {"backward": "backward", "grad": "backward"},
    "optim/optimizer.py": {"wrapper": "optimizer", "zero_grad": "zero_grad"},
    # Work of a gradient scaler for the optimizer. `scale` belongs to the loss.
    "amp/grad_scaler.py": {"step": "optimizer", "unscale_": "optimizer", "update": "optimizer"},
    "cuda/amp/grad_scaler.py": {"step": "optimizer", "unscale_": "optimizer", "update": "optimizer"},
    "nn/modules/module.py": {
        "_call_impl": "forward",
        "_wrapped_call_impl": "forward",
        "inner": "forward",
        "zero_grad": "zero_grad",
    },
}
# Code objects that belong to the enclosing function, although some versions of Python use a separate frame.
_PARTS_OF_FUNCTIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"))
_OF_ITERATION = frozenset(("forward", "loss", "backward", "optimizer"))  # marks of a training iteration
# endings of loss names in nn.functional
_LOSSES = ("cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "_loss")
# Frames of the profiler itself and of a compiler do not occur in measured steps.
_LEFT_OUT = ("profiler/profiler.py", "_dynamo/convert_frame.py", "_dynamo/output_graph.py")
# Complete paths that are not the user's: code of `exec` or of the interpreter, installed packages, code of
# torch.compile, the standard library. The macro `code_origin` has the same rules for the files in a trace.
_NOT_OF_USER = re.compile(
    r"<(?!ipython)|.*/(site|dist)-packages/|(.*/)?[a-z2-7]{2}/c[a-z2-7]{51}\.py$"
    r"|.*/lib(64)?/python\d(\.\d+)?t?/|.*/(?i:python\d+t?/lib/)"
)

_WITH_WORKERS = "_MultiProcessingDataLoaderIter."  # functions that wait for a worker's batch
_OF_DATASETS = ("__getitems__", "__getitem__", "__iter__")  # methods that return samples, as the loader prefers them

Place = tuple[str | None, str | None, str | None]
"""The mark before, after and around a sample: (after, before, inside)."""


@dataclass(frozen=True, eq=False, slots=True)
class _Code:
    """Classification of a code object. Equality is identity, for speed."""

    code: CodeType
    module: str | None
    mark: str | None
    is_user: bool
    is_left_out: bool
    is_loss: bool
    """Whether the function, as the first frame of a module call, makes the call a loss."""
    own_name: str = ""
    """Name of the function, if it is not the name of the code."""

    @property
    def name(self) -> str:
        return self.own_name or self.code.co_qualname


class _Stack(NamedTuple):
    """The counted parts of a sample. Functions are pairs of code and line, outermost first."""

    user: tuple[tuple[_Code, int], ...]
    outside_count: int
    """Number of user functions around the mark; all user functions without a mark."""
    leaf: tuple[_Code, int] | None
    """The innermost function, unless it is a user function."""


@dataclass(slots=True)
class _Run:
    """Consecutive samples inside the same mark, or between the same two marks."""

    inside: str | None
    stacks: Counter[_Stack] = field(default_factory=Counter)


class Sampler:
    """Samples a thread from `start` until a profiler records, `close` is called, or ten minutes have passed.

    If a profiler records before the program has run an iteration, sampling continues to the end of the first iteration.
    The iteration ends at `profile.step()`, at the next forward pass or batch after an optimizer step, or at the second
    inference pass.

    The sampled thread is the thread of the first forward pass; until then, the thread that called `start`. An error
    ends only the sampler. The sampling thread is stopped before a fork, so that no child is forked from a multithreaded
    process because of the sampler. The next forward pass starts the thread again.
    """

    def __init__(self, models: Iterable[Any] = ()) -> None:
        self._models = list(models)
        self._classify: Callable[[CodeType, object], _Code]
        self._handles: list[Any] = []
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._target = 0
        self._began = 0.0
        self._is_counting = False
        self._is_closed = False
        self._has_failed = False
        self._optimizer_hooks: list[Any] = []
        self._is_first_step = False  # a recording started first: sample its first iteration while the profiler records
        self._has_run = False
        self._has_updated = False
        self._known: dict[int, _Code] = {}  # by `id` of the code object
        self._known_of_workers: dict[tuple[CodeType, ...], _Code] = {}
        self._runs: list[_Run] = []

    def start(self) -> None:
        """Sample the calling thread. Counting starts at the first mark."""
        if need.torch("autograd.profiler")._is_profiler_enabled:
            self._is_closed = True
            return
        self._classify = _classifier()
        _active.add(self)
        close_before_recording(self)
        _hear_of_forks()
        self._mark_optimizers()
        self._arm()
        self._resume(threading.get_ident())

    def close(self) -> None:
        """Stop for good before returning."""
        self._is_closed = True
        self._pause()
        self._remove_hooks()
        _active.discard(self)
        closed(self)
        if not _active:
            _watch_step_no_more()

    def recording_begins(self) -> None:
        """Stop, unless nothing has run so far: then sample the first iteration, which is warm-up."""
        has_trained = self._has_run or any(run.inside in _OF_ITERATION for run in self._runs)
        if self._is_closed or self._has_failed or has_trained:
            self.close()
            return
        self._pause()
        self._runs.clear()  # at most the creation of a loader
        self._is_counting = False
        self._is_first_step = True
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        _watch_step()
        self._arm()
        self._resume(self._target)

    @property
    def is_running(self) -> bool:
        """Whether the sampling thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def result(self) -> dict[str, Any]:
        """Return the number of samples of each function and place, in the form stored in a trace."""
        notes = []
        frames = [] if self._has_failed else _frames(self._runs)
        if self._has_failed:
            notes.append("sampling the python stack failed")
        elif not frames:
            notes.append(
                "no python stack was sampled: leave steps before the recording (schedule with wait=1, warmup=1)"
                " to learn the names and lines of the user's code"
            )
        count = sum(sum(run.stacks.values()) for run in self._runs)
        return {"version": VERSION, "interval_ns": int(_INTERVAL_S * 1e9), "samples": count, "notes": notes} | {
            "frames": frames
        }

    def _remove_hooks(self) -> None:
        for handle in (*self._handles, *self._optimizer_hooks):
            handle.remove()
        self._handles.clear()
        self._optimizer_hooks.clear()

    def _mark_optimizers(self) -> None:
        """Note optimizer steps, often too short for a sample. Consecutive steps count once."""
        is_compiling = need.torch("compiler").is_compiling
        optimizer = need.torch("optim.optimizer")

        def note(*_: Any) -> None:
            if self._is_closed or is_compiling() or not self._is_counting or threading.get_ident() != self._target:
                return
            self._has_updated = True
            if not self._runs or self._runs[-1].inside != "optimizer":
                self._runs.append(_Run("optimizer"))

        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._optimizer_hooks += [
                optimizer.register_optimizer_step_pre_hook(note),
                optimizer.register_optimizer_step_post_hook(note),
            ]

    # --- start and stop of the thread --------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Hook the models, so that the next forward pass starts the thread."""
        is_compiling = need.torch("compiler").is_compiling

        call_count = 0

        def first_forward(*_: Any) -> None:
            if is_compiling():
                return
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self._has_run = True
            if not need.torch("autograd")._profiler_enabled():
                self._resume(threading.get_ident(), is_counting=True)

        def forward_of_first_step(*_: Any) -> None:
            nonlocal call_count
            if is_compiling():
                return
            call_count += 1
            is_inference = call_count > 1 and not is_grad_enabled()
            if self._has_updated or is_inference:
                self.close()
            else:
                self._resume(threading.get_ident(), is_counting=True)

        is_grad_enabled = need.torch().is_grad_enabled
        hook = forward_of_first_step if self._is_first_step else first_forward
        for model in self._models:
            self._handles.append(model.register_forward_pre_hook(hook, prepend=True))

    def _resume(self, target: int, *, is_counting: bool = False) -> None:
        if self._is_closed or self._has_failed:
            return
        if self._target != target:
            self._pause()
            self._runs.clear()
            self._target, self._is_counting = target, False
        if not self._is_counting:
            self._began, self._is_counting = time.perf_counter(), is_counting
        if self.is_running:
            return
        self._end.clear()
        self._thread = threading.Thread(target=self._watch, name=_NAME, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be started
            self._thread = None

    def _pause(self) -> None:
        """Stop the thread, and wait until it has ended."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()

    def before_fork(self) -> None:
        """Stop until the next forward pass."""
        self._pause()

    def after_fork(self) -> None:
        """In the parent process: wait for the next forward pass."""
        if not self._is_closed and not self._handles:
            self._arm()

    def forget(self) -> None:
        """In the forked child, which has no sampling thread and runs another program: stop for good."""
        self._is_closed, self._thread = True, None
        self._remove_hooks()

    # --- the sampling thread -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            profiler = need.torch("autograd.profiler")
            previous = time.perf_counter()
            while not self._end.wait(interval := self._interval()):
                if (profiler._is_profiler_enabled and not self._is_first_step) or sys.getprofile() is not None:
                    return  # with stacks, the trace itself contains every function
                if time.perf_counter() - self._began > _LONGEST_S:
                    return
                frame = sys._current_frames().get(self._target)
                if frame is None:
                    return
                # Python releases the GIL only every 5 ms (`sys.getswitchinterval`), but an op releases it at once. So a
                # sample is weighted by the number of intervals since the previous sample.
                now = time.perf_counter()
                self._count(frame, max(1, round((now - previous) / interval)))
                previous = now
                del frame
        except BaseException:  # the training must continue after any error
            self._has_failed = True

    def _interval(self) -> float:
        if not self._is_counting:
            return _WAITING_INTERVAL_S
        return _INTERVAL_S * max(1.0, (time.perf_counter() - self._began) / _FULL_RATE_S)

    def _count(self, frame: FrameType | None, weight: int = 1) -> None:
        inner_first: list[tuple[_Code, int]] = []
        of_workers: _Code | None = None
        while frame is not None and len(inner_first) < _DEEPEST:
            code = frame.f_code
            entry = self._known.get(id(code))
            if entry is None:
                entry = self._known[id(code)] = self._classify(code, frame.f_globals.get("__name__"))
            inner_first.append((entry, frame.f_lineno or code.co_firstlineno))
            if entry.mark == "load_data" and of_workers is None and entry.name.startswith(_WITH_WORKERS):
                of_workers = self._code_of_workers(frame.f_locals.get("self"))
            frame = frame.f_back
        mark, stack = self._understood(inner_first[::-1])
        if stack is None:
            return
        if mark == "load_data" and of_workers is not None and len(stack.user) == stack.outside_count:
            # The thread waits for a batch: the time is that of the code in the workers.
            stack = stack._replace(user=(*stack.user, (of_workers, of_workers.code.co_firstlineno)))
        if not self._is_counting:
            if mark is None:
                return
            self._is_counting = True
            self._began = time.perf_counter()
        if self._is_first_step and self._has_updated and mark in ("load_data", "forward"):
            self._end.set()  # the next iteration has begun
            return
        run = self._runs[-1] if self._runs else None
        if run is None or run.inside != mark:
            run = _Run(mark)
            self._runs.append(run)
        run.stacks[stack] += weight

    def _code_of_workers(self, iterator: object) -> _Code | None:
        """Return the user's functions that make batches in the workers: of the dataset, and `collate_fn`."""
        codes: list[CodeType] = []
        with suppress(Exception):
            content = vars(iterator)
            dataset = content.get("_dataset")
            while dataset is not None and not codes:
                of_class = [getattr_static(type(dataset), name, None) for name in _OF_DATASETS]
                codes = [code for code in map(self._code_of_user, of_class) if code is not None][:1]
                dataset = vars(dataset).get("dataset")  # a `Subset`, or another wrapper
            collate = content.get("_collate_fn")
            by_collate = self._code_of_user(collate) or self._code_of_user(getattr_static(type(collate), "__call__"))
            codes += [] if by_collate is None else [by_collate]
        if not codes:
            return None
        key = tuple(codes)
        if key not in self._known_of_workers:
            functions = [self._classify(code, None) for code in codes]
            name = " or ".join(function.name for function in functions)
            self._known_of_workers[key] = replace(functions[0], own_name=name)
        return self._known_of_workers[key]

    def _code_of_user(self, function: object) -> CodeType | None:
        """Return the code of a python function or method, if the code is the user's."""
        while isinstance(function, functools.partial):
            function = function.func
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return code if isinstance(code, CodeType) and self._classify(code, None).is_user else None

    @staticmethod
    def _understood(stack: Sequence[tuple[_Code, int]]) -> tuple[str | None, _Stack | None]:
        """Return the mark around a stack and the counted parts of the stack; (None, None) for excluded stacks."""
        user: list[tuple[_Code, int]] = []
        mark: str | None = None
        outside_count = 0
        is_call_of_module = False
        for entry, line in stack:
            if entry.is_left_out:
                return None, None
            if is_call_of_module and entry.mark != "forward":
                # The first function of a module call shows whether the module is a loss.
                mark = "loss" if entry.is_loss else mark
                is_call_of_module = False
            # Inside an optimizer step, a mark in the closure counts; otherwise the outermost mark counts.
            if entry.mark is not None and mark in (None, "optimizer") and entry.mark != mark:
                mark, outside_count = entry.mark, len(user)
                is_call_of_module = entry.mark == "forward"
            if entry.is_user and not (user and entry.code.co_name in _PARTS_OF_FUNCTIONS):
                user.append((entry, line))
        if mark is None:
            outside_count = len(user)
        leaf = None if not stack or stack[-1][0].is_user else stack[-1]
        return mark, _Stack(tuple(user), outside_count, leaf)


# --- classes of functions --------------------------------------------------------------------------------------------


def _classifier() -> Callable[[CodeType, object], _Code]:
    """Return a function that classifies a code object, given the name of its Python module."""
    torch = os.path.dirname(need.torch().__file__) + os.sep
    paths = sysconfig.get_paths()
    libraries = tuple({os.path.join(paths[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    prefixes = (*libraries, torch, _OWN)

    def classify(code: CodeType, module: object) -> _Code:
        file, name = code.co_filename, code.co_name
        torch_path = file[len(torch) :].replace(os.sep, "/") if file.startswith(torch) else ""
        names = _MARKS.get(torch_path, {})
        mark = names.get(name) or names.get(None)
        if torch_path == "nn/functional.py" and name.endswith(_LOSSES):
            mark = "loss"
        owner = getattr(code, "co_qualname", name).rpartition(".")[0].lower()
        return _Code(
            code=code,
            module=module if isinstance(module, str) else None,
            mark=mark,
            is_user=not (file.startswith(prefixes) or _NOT_OF_USER.match(file.replace(os.sep, "/"))),
            is_left_out=torch_path in _LEFT_OUT or file in _WORK_OF_OURS,
            is_loss=torch_path == "nn/modules/loss.py" or (name == "forward" and owner.endswith(("loss", "criterion"))),
        )

    return classify


# --- stored counts ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Function:
    """Counts of one function in one place; in the training loop, of one line."""

    known: _Code
    is_user: bool
    is_caller: bool = False
    count: int = 0
    inclusive: int = 0
    lines: Counter[int] = field(default_factory=Counter)


def _frames(runs: Sequence[_Run]) -> list[dict[str, Any]]:
    """Return the functions of each place, by number of samples."""
    loops = _loops(runs)
    places: dict[Place, Counter[_Stack]] = {}
    for place, run in zip(_places(runs), runs, strict=True):
        places.setdefault(place, Counter()).update(run.stacks)
    largest = sorted(places, key=lambda place: -places[place].total())[:_MOST_PLACES]
    return [
        {
            "after": place[0],
            "before": place[1],
            "inside": place[2],
            "function": function.known.name,
            "file": function.known.code.co_filename,
            "line": function.lines.most_common(1)[0][0],
            "first_line": function.known.code.co_firstlineno,
            "module": function.known.module,
            "count": function.count,
            "inclusive": function.inclusive,
            "gap": places[place].total(),
            "is_user": function.is_user,
            "is_loop": function.known in loops,
            "is_caller": function.is_caller,
        }
        for place in largest
        for function in _functions(places[place], place[2] is not None, loops)
    ]


def _places(runs: Sequence[_Run]) -> list[Place]:
    """Return the place of each run of samples. Steps repeat, so the first mark follows the last mark."""
    marks = [run.inside for run in runs if run.inside is not None]
    following = marks[0] if marks else None
    previous = marks[-1] if marks else None
    next_marks: list[str | None] = []
    for run in reversed(runs):
        next_marks.append(following)
        following = run.inside or following
    places: list[Place] = []
    for run, next_mark in zip(runs, reversed(next_marks), strict=True):
        places.append((previous, next_mark, run.inside))
        previous = run.inside or previous
    return places


def _loops(runs: Sequence[_Run]) -> set[_Code]:
    """Return the user functions around several different marks: the training loop and its callers."""
    marks: dict[_Code, set[str]] = {}
    for run in runs:
        if run.inside is not None:
            for stack in run.stacks:
                for entry, _ in stack.user[: stack.outside_count]:
                    marks.setdefault(entry, set()).add(run.inside)
    return {entry for entry, kinds in marks.items() if len(kinds) > 1}


def _functions(stacks: Counter[_Stack], is_inside: bool, loops: set[_Code]) -> list[_Function]:
    functions: dict[tuple[_Code, int | None], _Function] = {}
    leaves: dict[_Code, _Function] = {}
    for stack, count in stacks.items():
        innermost = len(stack.user) - 1
        # For a recursive function, the innermost call counts.
        for key, depth in {
            (entry, line if entry in loops else None): depth for depth, (entry, line) in enumerate(stack.user)
        }.items():
            function = functions.setdefault(key, _Function(key[0], True))
            function.inclusive += count
            function.count += count if depth == innermost else 0
            function.lines[stack.user[depth][1]] += count
            function.is_caller |= is_inside and depth == stack.outside_count - 1
        if stack.leaf is not None:
            entry, line = stack.leaf
            function = leaves.setdefault(entry, _Function(entry, False))
            function.count += count
            function.inclusive += count
            function.lines[line] += count
    by_count = sorted(functions.values(), key=lambda function: (-function.count, -function.inclusive))[:_MOST_FUNCTIONS]
    callers = [function for function in functions.values() if function.is_caller and function not in by_count]
    largest_leaves = sorted(leaves.values(), key=lambda function: -function.count)[: _MOST_FUNCTIONS // 2]
    return [*by_count, *callers[:_MOST_FUNCTIONS], *largest_leaves]


# --- end of a step, fork and exit of the process ----------------------------------------------------------------------

_active: weakref.WeakSet[Sampler] = weakref.WeakSet()
_replaced_step: Callable[..., Any] | None = None
_hears_of_forks = False


def _hear_of_forks() -> None:
    global _hears_of_forks
    if not _hears_of_forks:
        _hears_of_forks = True
        atexit.register(_close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def _watch_step() -> None:
    """Stop all samplers at the next `profile.step()`, which ends the first recorded iteration."""
    global _replaced_step
    profile = need.torch("profiler").profile
    if _replaced_step is not None:
        return
    _replaced_step = original = profile.step

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        _close_all()
        _watch_step_no_more()
        return original(self, *args, **kwargs)

    profile.step = step


def _watch_step_no_more() -> None:
    global _replaced_step
    if _replaced_step is not None:
        need.torch("profiler").profile.step, _replaced_step = _replaced_step, None


def _close_all() -> None:
    for sampler in list(_active):
        sampler.close()


def _before_fork() -> None:
    with suppress(Exception):
        for sampler in list(_active):
            sampler.before_fork()


def _after_fork() -> None:
    with suppress(Exception):
        for sampler in list(_active):
            sampler.after_fork()


def _in_child() -> None:
    with suppress(Exception):
        for sampler in list(_active):
            sampler.forget()
        _active.clear()
        forget_all()
