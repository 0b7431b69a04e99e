"""Samples the python stack of the training thread before the recording: which functions run between which marks.

A second thread does it, so the program runs as it is. The thread is gone before the profiler records anything.
"""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hotline_analysis.capture import need

KEY = "hotline_samples"
"""Where a trace file keeps the counts."""

VERSION = 1
_INTERVAL_S = 0.001
_WAITING_INTERVAL_S = 0.01  # until the first mark: nothing is counted before it
_LONGEST_S = 600.0  # a program that never records anything is left alone then
_FULL_RATE_S = 10.0  # from then on the interval grows with the time: ten times as long is 2.3 times as many samples
_DEEPEST = 400  # frames; what is deeper is recursion
_MOST_PLACES = 60  # pairs of marks that are stored, those with most samples first
_MOST_FUNCTIONS = 12  # of each place
_NAME = "hotline_analysis.sampler"

_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_WORK_OF_OURS = tuple(
    os.path.join(_OWN, "capture", file) for file in ("handler.py", "learn.py", "shapes.py", "zeros.py")
)

# Files of torch whose frames are marks: all functions of a file, or those with these names.
_MARKS: dict[str, dict[str | None, str]] = {
    "utils/data/dataloader.py": {None: "load_data"},
    "_tensor.py": {"backward": "backward"},
    "autograd/__init__.py": {"backward": "backward", "grad": "backward"},
    "optim/optimizer.py": {"wrapper": "optimizer", "zero_grad": "zero_grad"},
    # What a gradient scaler does for the optimizer; `scale` belongs to the loss.
    "amp/grad_scaler.py": {"step": "optimizer", "unscale_": "optimizer", "update": "optimizer"},
    "cuda/amp/grad_scaler.py": {"step": "optimizer", "unscale_": "optimizer", "update": "optimizer"},
    "nn/modules/module.py": {
        "_call_impl": "forward",
        "_wrapped_call_impl": "forward",
        "inner": "forward",
        "zero_grad": "zero_grad",
    },
}
# What is a part of the function around it: of the code of a line, though some versions of Python run a frame for it.
_PARTS_OF_FUNCTIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"))
_LOSSES = ("cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "_loss")  # ends of names in nn.functional
# Frames of the profiler itself, and of a compiler: neither is in the measured steps.
_LEFT_OUT = ("profiler/profiler.py", "_dynamo/convert_frame.py", "_dynamo/output_graph.py")

Place = tuple[str | None, str | None, str | None]
"""The mark after which, before which and inside which a sample lies."""


@dataclass(frozen=True, eq=False, slots=True)
class _Code:
    """What the code of a function is. Two of them are the same only if they are one object, which is quick to tell."""

    code: CodeType
    module: str | None
    mark: str | None
    is_user: bool
    is_left_out: bool
    is_loss: bool
    """As the first frame of a module's call, it makes the call one of a loss."""


class _Stack(NamedTuple):
    """What counts of a sample. Functions are pairs of code and line, the outermost first."""

    user: tuple[tuple[_Code, int], ...]
    outside_count: int
    """Functions of the user's that are around the mark; all of them without a mark."""
    leaf: tuple[_Code, int] | None
    """The innermost function, if it is not the user's."""


@dataclass(slots=True)
class _Run:
    """Samples one after the other in the same mark, or between the same two marks."""

    inside: str | None
    stacks: Counter[_Stack] = field(default_factory=Counter)


class Sampler:
    """Samples a thread from `start` on, until a profiler records, `close` is called, or ten minutes are over.

    Where the model first runs is the thread that counts; until then it is the thread that started it. An error of the
    sampler ends it, and nothing else. Before a process forks, the thread is stopped, so that no fork is one of several
    threads because of it; the next forward pass starts it again.
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
        self._known: dict[int, _Code] = {}  # by the id of the code
        self._runs: list[_Run] = []

    def start(self) -> None:
        """Sample this thread, and count from the first mark on."""
        if need.torch("autograd.profiler")._is_profiler_enabled:
            self._is_closed = True
            return
        self._classify = _classifier()
        _active.add(self)
        _watch_recording()
        self._mark_optimizers()
        self._arm()
        self._resume(threading.get_ident())

    def close(self) -> None:
        """Stop for good, before this returns."""
        self._is_closed = True
        self._pause()
        self._remove_hooks()
        _active.discard(self)
        if not _active:
            _watch_recording_no_more()

    @property
    def is_running(self) -> bool:
        """Whether the thread is there now."""
        return self._thread is not None and self._thread.is_alive()

    def result(self) -> dict[str, Any]:
        """The counts as they are stored in a trace."""
        notes = []
        frames = [] if self._has_failed else _frames(self._runs)
        if self._has_failed:
            notes.append("sampling the python stack failed")
        elif not frames:
            notes.append(
                "no python stack was sampled, as the recording began with the first step: leave steps before it"
                " (schedule with wait=1, warmup=1) to learn the names and lines of the user's code"
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
        """Note steps of optimizers, which may be too short for a sample: once until a sample shows something else."""
        is_compiling = need.torch("compiler").is_compiling
        optimizer = need.torch("optim.optimizer")

        def note(*_: Any) -> None:
            if is_compiling() or not self._is_counting or threading.get_ident() != self._target:
                return
            if not self._runs or self._runs[-1].inside != "optimizer":
                self._runs.append(_Run("optimizer"))

        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._optimizer_hooks += [
                optimizer.register_optimizer_step_pre_hook(note),
                optimizer.register_optimizer_step_post_hook(note),
            ]

    # --- when the thread runs ----------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Begin again, or for the first time, where a model runs."""
        is_compiling = need.torch("compiler").is_compiling

        def first_forward(*_: Any) -> None:
            if is_compiling():
                return
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            if not need.torch("autograd")._profiler_enabled():
                self._resume(threading.get_ident(), is_counting=True)

        for model in self._models:
            self._handles.append(model.register_forward_pre_hook(first_forward, prepend=True))

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
        """Stop the thread, and wait until it is gone."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()

    def before_fork(self) -> None:
        """Stop until the next forward pass."""
        self._pause()

    def after_fork(self) -> None:
        """In the parent: wait for the next forward pass."""
        if not self._is_closed and not self._handles:
            self._arm()

    def forget(self) -> None:
        """In the child of a fork, which has no such thread, and whose program is another."""
        self._is_closed, self._thread = True, None
        self._remove_hooks()

    # --- what the thread does ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            profiler = need.torch("autograd.profiler")
            while not self._end.wait(self._interval()):
                if profiler._is_profiler_enabled or time.perf_counter() - self._began > _LONGEST_S:
                    return
                frame = sys._current_frames().get(self._target)
                if frame is None:
                    return
                self._count(frame)
                del frame
        except BaseException:  # whatever it is, the training goes on
            self._has_failed = True

    def _interval(self) -> float:
        if not self._is_counting:
            return _WAITING_INTERVAL_S
        return _INTERVAL_S * max(1.0, (time.perf_counter() - self._began) / _FULL_RATE_S)

    def _count(self, frame: FrameType | None) -> None:
        inner_first: list[tuple[_Code, int]] = []
        while frame is not None and len(inner_first) < _DEEPEST:
            code = frame.f_code
            known = self._known.get(id(code))
            if known is None:
                known = self._known[id(code)] = self._classify(code, frame.f_globals.get("__name__"))
            inner_first.append((known, frame.f_lineno or code.co_firstlineno))
            frame = frame.f_back
        inside, stack = self._understood(inner_first[::-1])
        if stack is None:
            return
        if not self._is_counting:
            if inside is None:
                return
            self._is_counting = True
            self._began = time.perf_counter()
        run = self._runs[-1] if self._runs else None
        if run is None or run.inside != inside:
            run = _Run(inside)
            self._runs.append(run)
        run.stacks[stack] += 1

    @staticmethod
    def _understood(stack: Sequence[tuple[_Code, int]]) -> tuple[str | None, _Stack | None]:
        """The mark that a stack is inside of, and what counts of the stack; nothing if it is not the program's."""
        user: list[tuple[_Code, int]] = []
        inside: str | None = None
        outside_count = 0
        is_call_of_module = False
        for known, line in stack:
            if known.is_left_out:
                return None, None
            if is_call_of_module and known.mark != "forward":
                # The first function that a module's call runs tells a loss.
                inside = "loss" if known.is_loss else inside
                is_call_of_module = False
            # Of an optimizer's closure, what it calls counts, and else what is around all.
            if known.mark is not None and inside in (None, "optimizer") and known.mark != inside:
                inside, outside_count = known.mark, len(user)
                is_call_of_module = known.mark == "forward"
            if known.is_user and not (user and known.code.co_name in _PARTS_OF_FUNCTIONS):
                user.append((known, line))
        if inside is None:
            outside_count = len(user)
        leaf = None if not stack or stack[-1][0].is_user else stack[-1]
        return inside, _Stack(tuple(user), outside_count, leaf)


# --- what a function is ----------------------------------------------------------------------------------------------


def _classifier() -> Callable[[CodeType, object], _Code]:
    """Return what says what a code object is, given the name of its python module."""
    torch = os.path.dirname(need.torch().__file__) + os.sep
    paths = sysconfig.get_paths()
    libraries = tuple({os.path.join(paths[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    installed = (*libraries, torch, _OWN, "<frozen")

    def classify(code: CodeType, module: object) -> _Code:
        file, name = code.co_filename, code.co_name
        within = file[len(torch) :].replace(os.sep, "/") if file.startswith(torch) else ""
        names = _MARKS.get(within, {})
        mark = names.get(name) or names.get(None)
        if within == "nn/functional.py" and name.endswith(_LOSSES):
            mark = "loss"
        owner = getattr(code, "co_qualname", name).rpartition(".")[0].lower()
        return _Code(
            code=code,
            module=module if isinstance(module, str) else None,
            mark=mark,
            is_user=not (file.startswith(installed) or "site-packages" in file or "dist-packages" in file),
            is_left_out=within in _LEFT_OUT or file in _WORK_OF_OURS,
            is_loss=within == "nn/modules/loss.py" or (name == "forward" and owner.endswith(("loss", "criterion"))),
        )

    return classify


# --- what is stored --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Function:
    """Counts of one function in one place; of the training loop, of one line."""

    known: _Code
    is_user: bool
    is_caller: bool = False
    count: int = 0
    inclusive: int = 0
    lines: Counter[int] = field(default_factory=Counter)


def _frames(runs: Sequence[_Run]) -> list[dict[str, Any]]:
    """The functions of each place, those with most samples first."""
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
            "function": function.known.code.co_qualname,
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
    """Where each run of samples lies. Steps repeat, so the first mark follows the last one."""
    marks = [run.inside for run in runs if run.inside is not None]
    following = marks[0] if marks else None
    previous = marks[-1] if marks else None
    before: list[str | None] = []
    for run in reversed(runs):
        before.append(following)
        following = run.inside or following
    places: list[Place] = []
    for run, next_mark in zip(runs, reversed(before), strict=True):
        places.append((previous, next_mark, run.inside))
        previous = run.inside or previous
    return places


def _loops(runs: Sequence[_Run]) -> set[_Code]:
    """The user's functions around several different marks: the training loop, and what calls it."""
    marks: dict[_Code, set[str]] = {}
    for run in runs:
        if run.inside is not None:
            for stack in run.stacks:
                for known, _ in stack.user[: stack.outside_count]:
                    marks.setdefault(known, set()).add(run.inside)
    return {known for known, around in marks.items() if len(around) > 1}


def _functions(stacks: Counter[_Stack], is_inside: bool, loops: set[_Code]) -> list[_Function]:
    found: dict[tuple[_Code, int | None], _Function] = {}
    leaves: dict[_Code, _Function] = {}
    for stack, count in stacks.items():
        innermost = len(stack.user) - 1
        # The innermost call of a function counts, if it is recursive.
        for key, at in {
            (known, line if known in loops else None): at for at, (known, line) in enumerate(stack.user)
        }.items():
            function = found.setdefault(key, _Function(key[0], True))
            function.inclusive += count
            function.count += count if at == innermost else 0
            function.lines[stack.user[at][1]] += count
            function.is_caller |= is_inside and at == stack.outside_count - 1
        if stack.leaf is not None:
            known, line = stack.leaf
            function = leaves.setdefault(known, _Function(known, False))
            function.count += count
            function.inclusive += count
            function.lines[line] += count
    by_count = sorted(found.values(), key=lambda function: (-function.count, -function.inclusive))[:_MOST_FUNCTIONS]
    callers = [function for function in found.values() if function.is_caller and function not in by_count]
    largest_leaves = sorted(leaves.values(), key=lambda function: -function.count)[: _MOST_FUNCTIONS // 2]
    return [*by_count, *callers[:_MOST_FUNCTIONS], *largest_leaves]


# --- when a recording begins, a process forks or ends ----------------------------------------------------------------

_active: weakref.WeakSet[Sampler] = weakref.WeakSet()
_replaced: Callable[[], None] | None = None
_hears_of_forks = False


def _recording_begins() -> None:
    """What torch calls before it records: stop all samplers, so that none of them is there in a measured step."""
    original = _replaced
    for sampler in list(_active):
        sampler.close()
    _watch_recording_no_more()
    if original is not None:
        original()


def _watch_recording() -> None:
    global _replaced, _hears_of_forks
    profiler = need.torch("autograd.profiler")
    if _replaced is None and hasattr(profiler, "_run_on_profiler_start"):
        _replaced = profiler._run_on_profiler_start
        profiler._run_on_profiler_start = _recording_begins
    if not _hears_of_forks:
        _hears_of_forks = True
        atexit.register(_close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def _watch_recording_no_more() -> None:
    global _replaced
    profiler = need.torch("autograd.profiler")
    if _replaced is not None and profiler._run_on_profiler_start is _recording_begins:
        profiler._run_on_profiler_start = _replaced
        _replaced = None


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
        _watch_recording_no_more()
