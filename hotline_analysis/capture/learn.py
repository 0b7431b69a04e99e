"""Learns in one forward pass, outside the measurement, which modules run in which order and which ops they call.

With `shapes`, also with which arguments: of that pass, and of the backward pass that follows from it.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

from hotline_analysis.capture import need
from hotline_analysis.capture.shapes import ENGINE, Call, Observer, Tree, places_of, tree_of
from hotline_analysis.capture.table import Facts, ModelOps, Module, NodeTree, Op, Parameter, Seen, build
from hotline_analysis.capture.zeros import ZeroCount
from hotline_analysis.errors import HotlineError

_MARK = "hotline_analysis.module#"
_COMPILED = ("compiled with torch.compile()", "compiled with its method compile()")
_INSIDE = "_orig_mod"  # the name of a module in what `torch.compile` puts around it
_REGION = ("TorchDynamo Cache Lookup", "Torch-Compiled Region")  # what runs where compiled code is called
_USER_SCOPE = 7  # of a record_function range, in the profiler's events
_OWN = os.path.dirname(__file__) + os.sep


def model_ops(model: Any, *inputs: Any, **kwargs: Any) -> ModelOps:
    """Run `model(*inputs, **kwargs)` once and return its modules, ops and parameters, without a profiler.

    The pass runs in the model's present mode (training or evaluation) and under the caller's settings of gradients and
    autocast, so use those of the training loop: the ops depend on them. Random state and buffers (the running averages
    of batch norm) are put back afterwards; the outputs are dropped. What the pass does beside that, such as filling a
    cache of the model's own, remains. Raises `HotlineError` for what is no `torch.nn.Module`.
    """
    need.torch()
    learner = Learner(model)
    try:
        with _unchanged(model):
            model(*inputs, **kwargs)
    finally:
        learner.close()
    return learner.result()


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Put random state and buffers back afterwards."""
    torch = need.torch()
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    kind = device.type if device.type not in ("cpu", "meta") else "cuda"
    devices = [] if device.type in ("cpu", "meta") else [device.index or 0]
    try:
        with torch.random.fork_rng(devices, device_type=kind):
            yield
    finally:
        with torch.no_grad():
            for module, name, buffer, before in buffers:
                buffer.copy_(before)
                module._buffers[name] = buffer


class Learner:
    """Watches the model's next forward pass if no profiler records it. All its hooks are gone when that is over.

    If a profiler records already, or the model is compiled, it does not watch: it must not disturb a measurement. If
    modules in it are compiled, they run as they were written in that pass, and their ops are those of compiled code.
    With `shapes`, the first backward pass from what the forward pass returns is observed too, if it is not recorded.
    With `count_zeros`, the zeros behind ReLUs are counted when the forward pass is over.
    """

    def __init__(self, model: Any, *, shapes: bool = True, count_zeros: bool = False) -> None:
        self._model = getattr(model, _INSIDE, model)  # what torch.compile() wraps
        self._modules, self._wrapped = _without_wrappers(self._model)
        self._handles: list[Any] = []
        self._seen: dict[int, Seen] = {}
        self._hidden: set[int] = set()
        self._stacks: dict[int, list[tuple[int, Any]]] = {}
        self._ops: list[Op] = []
        self._with_shapes = shapes
        self._zeros = ZeroCount(self._module_at) if count_zeros else None
        self._zero_shares: dict[int, float] = {}
        self._observer: Observer | None = None
        self._events: list[Any] = []  # of the forward pass, until they are understood
        self._calls: list[Call] = []  # of the forward pass, from its begin
        self._backward_calls: list[Call] = []
        self._output_handles: list[Any] = []
        self._notes: list[str] = []
        self._parents = _registered_parents(self._modules)
        self._recording = False
        self._complete = False
        self._graphs = 0
        self._compiled: set[int] = set()
        self._stance: Any = None
        if (why := opaque(model)) is None:
            self._handles.append(model.register_forward_pre_hook(_unless_compiling(self._begin), prepend=True))
        else:
            self._notes.append(f"{type(model).__name__} is {why}: the order of its modules and their ops are not seen")

    @property
    def hooks(self) -> int:
        """The number of hooks on the model now."""
        return len(self._handles)

    def close(self) -> None:
        """Stop watching and remove every hook."""
        for handle in (*self._handles, *self._output_handles):
            handle.remove()
        self._handles.clear()
        self._output_handles.clear()
        self._finish()
        if self._zeros is not None:
            self._zeros.stop()
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None

    def result(self) -> ModelOps:
        """Return what was learned: the order of execution, or that of registration if no forward pass was watched."""
        self._finish()
        notes = list(self._notes)
        if not self._complete and not notes:
            notes.append("no forward pass was seen: the modules are in the order of their registration")
        notes += _wrapper_notes(module for _, module in self._modules)
        complete = self._complete
        return build(
            Facts(
                modules=_describe(self._modules, self._parents),
                parameters=_parameters(self._model, self._modules),
                seen=self._seen if complete else {},
                hidden=self._hidden,
                ops=self._ops if complete else (),
                nodes=self._node_trees() if complete else (),
                notes=notes,
            )
        )

    def zeros_pct(self) -> dict[str, float]:
        """The share of zeros behind ReLUs, in percent, by the path of the module that makes them."""
        paths = {module.number: module.path for module in _describe(self._modules, self._parents)}
        return {paths[number]: share for number, share in self._zero_shares.items()}

    # --- hooks -------------------------------------------------------------------------------------------------------

    def _begin(self, *_: Any) -> None:
        """Before the first forward: hook every module, or give up if that could be seen in a measurement."""
        self.close()
        if need.torch("autograd")._profiler_enabled():
            self._notes.append(
                "the first forward pass was recorded already: the modules are in the order of their registration;"
                " let one pass run before the recording (schedule with warmup=1), or give `inputs`"
            )
            return
        why_not = [_COMPILED[0] if number in self._wrapped else opaque(each) for number, each in self._numbered()]
        if not set(why_not).isdisjoint(_COMPILED):
            self._stance = _without_compiled_code()
        inside: dict[str, bool] = {}  # by the beginning of paths: whether these modules are seen
        for (number, module), why in zip(self._numbered(), why_not, strict=True):
            path = self._modules[number][0]
            is_seen = [seen for prefix, seen in inside.items() if path.startswith(prefix)]
            if why is not None and not is_seen:
                is_seen = [why in _COMPILED and self._stance is not None]
                inside[path + "."] = is_seen[0]
                if is_seen[0]:
                    self._compiled.add(number)
                    self._notes.append(f"{path} is {why}: the time of its compiled code is not told apart by module")
                else:
                    self._notes.append(f"{path} is {why}: the modules in it and their ops are not seen")
            if all(is_seen):
                self._hook(number, module)
            else:
                self._hidden.add(number)
        self._graphs = _compiled_graphs()
        self._recording = _start_recording()
        if not self._recording:
            self._notes.append("this version of torch does not tell the names of ops")
        if self._with_shapes and _communicates_on_the_cpu(self._model):
            self._with_shapes = False
            self._notes.append(
                "the shapes of ops are not learned where processes exchange gradients on the CPU; record_shapes=True"
                " of the profiler records them"
            )
        self._observer = Observer.started() if self._recording and self._with_shapes else None
        self._enter(0)
        if self._zeros is not None:
            self._zeros.start()

    def _numbered(self) -> Iterator[tuple[int, Any]]:
        return enumerate(module for _, module in self._modules)

    def _hook(self, number: int, module: Any) -> None:
        if number:
            enter = _unless_compiling(lambda *_: self._enter(number))
            self._handles.append(module.register_forward_pre_hook(enter, prepend=True))
        leave = _unless_compiling((lambda *_: self._exit(number)) if number else self._end)
        self._handles.append(module.register_forward_hook(leave, always_call=True))

    def _enter(self, number: int) -> None:
        thread = threading.get_ident()
        stack = self._stacks.setdefault(thread, [])
        seen = self._seen.get(number)
        if seen is None:
            parent = stack[-1][0] if stack else self._called_parent(number)
            seen = self._seen[number] = Seen(thread, parent, _call_site())
        if seen.thread == thread:
            seen.calls += 1
        mark = need.torch("profiler").record_function(f"{_MARK}{number}")
        mark.__enter__()
        stack.append((number, mark))

    def _exit(self, number: int) -> None:
        stack = self._stacks.get(threading.get_ident(), [])
        while stack:
            open_number, mark = stack.pop()
            mark.__exit__(None, None, None)
            if open_number == number:
                return

    def _end(self, *arguments: Any) -> None:
        """After the first forward, whether it went well or not."""
        self._exit(0)
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.pause()
        self.close()
        lists = _stop_recording() if self._recording else []
        if arguments[-1] is None and sys.exc_info()[0] is not None:
            self._notes.append("the first forward pass failed: the modules are in the order of their registration")
            if observer is not None:
                observer.stop()
            return
        self._complete = True
        if self._zeros is not None:
            self._zero_shares = self._zeros.by_module()
        if _compiled_graphs() != self._graphs:
            self._notes.append(
                "code was compiled during the pass: its ops are those of compiling, and the next pass compiles again"
                " (without the hooks); run the model once before analyze()"
            )
        self._observer = observer
        self._events = next((events for events in lists if any(event.name() == f"{_MARK}0" for event in events)), [])
        outputs = _made(arguments[-1]) if observer is not None and self._events else []
        self._output_handles += [tensor.register_hook(self._begin_backward) for tensor in outputs]
        if not outputs:
            self._finish()
        if len({seen.thread for seen in self._seen.values()}) > 1:
            self._notes.append("some modules ran on other threads: their ops are not seen, replicas count once")

    # --- backward ----------------------------------------------------------------------------------------------------

    def _begin_backward(self, _: Any) -> None:
        """Where the gradient of what the pass returned is known: observe until the engine is done."""
        for handle in self._output_handles:
            handle.remove()
        self._output_handles.clear()
        if self._observer is None:
            return
        autograd = need.torch("autograd")
        try:
            autograd.Variable._execution_engine.queue_callback(self._finish)
        except (AttributeError, RuntimeError):
            self._finish()
            return
        if autograd._profiler_enabled():
            self._finish()
        else:
            self._observer.go_on()

    def _finish(self) -> None:
        """Make of what was heard the ops of the forward pass and the calls of backward; nothing if that is done."""
        if self._observer is None and not self._events:
            return
        forward, self._backward_calls = self._observer.stop() if self._observer is not None else ([], [])
        events, self._events, self._observer = self._events, [], None
        if not events:
            return
        self._calls = _same_calls(events, forward)
        self._ops = _outermost(events, self._compiled, self._calls)
        if self._with_shapes and not self._calls:
            self._notes.append(
                "the shapes of ops are not known: this version of torch does not tell, or something else observes them"
            )

    def _node_trees(self) -> list[NodeTree]:
        """The calls in each autograd node of the pass, with the op that made it: the last with its number."""
        makers: dict[int, tuple[int, int] | None] = {call.sequence: None for call in self._calls}
        owners = {}
        for number, op in enumerate(self._ops):
            if op.tree is not None:
                owners.update({at: (number, place) for place, at in enumerate(places_of(self._calls, op.at))})
        for at, call in enumerate(self._calls):
            makers[call.sequence] = owners.get(at)
        threads: dict[int, list[Call]] = {}
        for call in self._backward_calls:
            threads.setdefault(call.thread, []).append(call)
        found = []
        for calls in map(_with_first_node, threads.values()):
            for at, call in enumerate(calls):
                if not call.name.startswith(ENGINE):
                    continue
                places = places_of(calls, at)
                inside = [calls[place] for place in places[1:]]
                node = next((each for each in inside if each.is_node), None)
                is_nested = any(each.name.startswith(ENGINE) for each in inside)
                if node is None or is_nested or node.sequence < 0 or node.forward_thread != self._calls[0].thread:
                    continue
                if (maker := makers.get(node.sequence)) is not None:
                    found.append(NodeTree(*maker, tree_of(calls, at)))
        return found

    def _module_at(self, thread: int) -> int | None:
        stack = self._stacks.get(thread)
        return stack[-1][0] if stack else None

    def _called_parent(self, number: int) -> int | None:
        parent = self._parents[number]
        while parent is not None and parent not in self._seen:
            parent = self._parents[parent]
        return parent


def _unless_compiling(hook: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook so that a compiler which traces through it sees nothing, and compiles what it would without it."""
    is_compiling = need.torch("compiler").is_compiling

    def wrapped(*arguments: Any) -> None:
        if not is_compiling():
            hook(*arguments)

    return wrapped


# --- ops -------------------------------------------------------------------------------------------------------------


def _start_recording() -> bool:
    """Begin to record the names of ops as the profiler sees them; return whether this version of torch can.

    The recorder of before Kineto still sees what Kineto sees, needs no file, and runs while Kineto only warms up.
    """
    autograd = need.torch("autograd")
    try:
        settings = autograd.ProfilerConfig(
            autograd.ProfilerState.CPU,
            False,
            False,
            False,
            False,
            False,
            need.torch("_C")._profiler._ExperimentalConfig(),
        )
        autograd._enable_profiler_legacy(settings)
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


def _stop_recording() -> list[list[Any]]:
    """Return the events of each thread."""
    lists: list[list[Any]] = need.torch("autograd")._disable_profiler_legacy()
    return lists


def _same_calls(events: Iterable[Any], observed: Sequence[Call]) -> list[Call]:
    """What was observed of the pass, from its mark on; nothing if that is not what was recorded of it."""
    mark = f"{_MARK}0"
    names = [event.name() for event in events if event.kind() == "push"]
    names = names[names.index(mark) :]
    begin = next((at for at, call in enumerate(observed) if call.name == mark), None)
    if begin is None:
        return []
    calls = [call for call in observed[begin:] if call.thread == observed[begin].thread]
    length = next((at for at, call in enumerate(calls) if at and call.depth <= calls[0].depth), len(calls))
    same = [call.name for call in calls[:length]] == names[:length] and length > 1
    return calls[:length] if same else []


def _with_first_node(calls: list[Call]) -> list[Call]:
    """The calls of a thread of backward, with the engine's call of the first node: the observer was started in it."""
    engine = next((at for at, call in enumerate(calls) if call.name.startswith(ENGINE)), len(calls))
    node = next((at for at, call in enumerate(calls[:engine]) if call.is_node), None)
    if node is None:
        return calls
    call = replace(calls[node], name=ENGINE + calls[node].name, arguments=None, is_node=False)
    return [call, *(replace(inner, depth=inner.depth + 1) for inner in calls[node:engine]), *calls[engine:]]


def _made(output: Any, depth: int = 3) -> list[Any]:
    """The tensors in what a model returned that a backward pass can begin with."""
    if isinstance(output, need.torch().Tensor):
        return [output] if output.grad_fn is not None else []
    if isinstance(output, Mapping):
        output = list(output.values())
    if not isinstance(output, tuple | list) or not depth:
        return []
    return [tensor for part in output for tensor in _made(part, depth - 1)]


def _is_function(op: Op, module: int) -> bool:
    """Whether an op of a module is a python function, such as that of a checkpoint or of a graph that is replayed."""
    return op.module == module and "::" not in op.name


def _outermost(events: Iterable[Any], compiled: Collection[int] = (), observed: Sequence[Call] = ()) -> list[Op]:
    """Return the ops that no other op of the same module contains, in order; of compiled modules, a region.

    `observed` are the calls from the first mark on, if they were observed.
    """
    at = -1  # among those
    ops = []
    calls: dict[int, int] = {}
    modules: list[tuple[int, int]] = []  # number, and ops around its mark
    opened: dict[int, str] = {}
    depth = 0
    in_compiled = 0  # how many modules were open when the compiled one was entered
    for event in events:
        kind = event.kind()
        if kind == "push":
            name = event.name()
            if at >= 0 or name == f"{_MARK}0":
                at += 1
            if event.scope() != _USER_SCOPE:
                if modules and depth == modules[-1][1] and not in_compiled:
                    number = modules[-1][0]
                    tree = _tree_without_modules(observed, at)
                    ops.append(Op(name, number, calls[number], depth, at, tree))
                depth += 1
                opened[event.handle()] = "op"
            elif name.startswith(_MARK):
                number = int(name.removeprefix(_MARK))
                if ops and modules and depth > modules[-1][1] and _is_function(ops[-1], modules[-1][0]):
                    ops.pop()  # it calls modules, whose ops stand for themselves
                calls[number] = calls.get(number, -1) + 1
                modules.append((number, depth))
                opened[event.handle()] = "module"
                if number in compiled and not in_compiled:
                    in_compiled = len(modules)
                    ops += [Op(name, number, calls[number], depth) for name in _REGION]
        elif kind == "pop":
            what = opened.pop(event.handle(), None)
            if what == "op":
                depth -= 1
            elif what == "module":
                modules.pop()
                if len(modules) < in_compiled:
                    in_compiled = 0
    return ops


def _tree_without_modules(observed: Sequence[Call], at: int) -> Tree | None:
    """The calls in an op; None if a module is called in it, whose ops stand for themselves."""
    if at >= len(observed):
        return None
    end = next((place for place in range(at + 1, len(observed)) if observed[place].depth <= observed[at].depth), None)
    if any(call.name.startswith(_MARK) for call in observed[at:end]):
        return None
    return tree_of(observed, at)


# --- modules ---------------------------------------------------------------------------------------------------------


def opaque(module: Any) -> str | None:
    """Say why what happens inside a module cannot be watched without changing it."""
    if _is_wrapper(module):
        return _COMPILED[0]
    if getattr(module, "_compiled_call_impl", None) is not None:
        return _COMPILED[1]
    if isinstance(module, need.torch("jit").ScriptModule):
        return "compiled with TorchScript"
    return None


def _is_wrapper(module: Any) -> bool:
    """Whether `torch.compile(module)` has made this module around one."""
    return type(module).__name__ == "OptimizedModule" and hasattr(module, _INSIDE)


def _without_wrappers(model: Any) -> tuple[list[tuple[str, Any]], set[int]]:
    """Return the modules by path without what `torch.compile` puts around some, and the numbers of those."""
    if not hasattr(model, "named_modules"):
        raise HotlineError(
            f"the model is a {type(model).__name__}, and no torch.nn.Module",
            hint="Give the module that is trained. `load` and `hotline report` open a trace file.",
        )
    modules = [(path, module) for path, module in model.named_modules() if not _is_wrapper(module)]
    wrapped = {number for number, (path, _) in enumerate(modules) if path.endswith(f".{_INSIDE}")}
    return [(_plain(path), module) for path, module in modules], wrapped


def _plain(path: str) -> str:
    """A path as it would be without what `torch.compile` puts around modules."""
    return ".".join(name for name in path.split(".") if name != _INSIDE)


def _without_compiled_code() -> Any:
    """Let compiled code run as it was written, until the end of what is returned; None if torch cannot (before 2.6)."""
    set_stance = getattr(need.torch("compiler"), "set_stance", None)
    return None if set_stance is None else set_stance("force_eager")


def _compiled_graphs() -> int:
    """Return how many graphs torch.compile has made in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


def _wrapper_notes(modules: Iterable[Any]) -> list[str]:
    names = {kind.__name__ for module in modules for kind in type(module).__mro__}
    notes = []
    if names & {"FullyShardedDataParallel", "FSDPModule"}:
        notes.append("FSDP shards the parameters: their sizes are those that this process sees between steps")
    if "DataParallel" in names:
        notes.append("DataParallel runs replicas on other threads when it uses several devices")
    return notes


def _registered_parents(modules: list[tuple[str, Any]]) -> list[int | None]:
    """Return for each module the one around it, by path."""
    numbers = {path: number for number, (path, _) in enumerate(modules)}
    parents: list[int | None] = []
    for path, _ in modules:
        parent = path
        while parent:
            parent = parent.rpartition(".")[0]
            if parent in numbers:
                break
        parents.append(numbers[parent] if path else None)
    return parents


def _describe(modules: list[tuple[str, Any]], parents: list[int | None]) -> list[Module]:
    base = need.torch("nn").Module
    described = []
    forwards = {kind: _forward_code(kind) for kind in {type(module) for _, module in modules}}
    for number, (path, module) in enumerate(modules):
        sizes = [size for parameter in module.parameters() if (size := _size(parameter)) is not None]
        described.append(
            Module(
                number=number,
                parent=parents[number],
                path=path,
                type=type(module).__name__,
                callable=getattr(type(module), "forward", None) is not base.forward,
                param_count=sum(count for count, _ in sizes),
                param_bytes=sum(size for _, size in sizes),
                source=_line_of_code(modules, parents, forwards, number),
            )
        )
    return described


def _size(parameter: Any) -> tuple[int, int] | None:
    """Number of elements and bytes; None for the parameter of a lazy module that has none yet."""
    try:
        count = int(parameter.numel())
        return count, count * int(parameter.element_size())
    except (RuntimeError, ValueError):
        return None


def _parameters(model: Any, modules: list[tuple[str, Any]]) -> list[Parameter]:
    numbers: Mapping[str, int] = {path: number for number, (path, _) in enumerate(modules)}
    rows = []
    for path, parameter in model.named_parameters():
        name = _plain(path)
        size = _size(parameter)
        rows.append(
            Parameter(
                name=name,
                module=numbers[name.rpartition(".")[0]],
                shape=[int(length) for length in parameter.shape] if size else [],
                numel=size[0] if size else 0,
                requires_grad=bool(parameter.requires_grad),
            )
        )
    return rows


def _communicates_on_the_cpu(model: Any) -> bool:
    """Whether threads of gloo exchange the gradients: these end ops whenever another process is done.

    Torch's observer of arguments does not bear that (`Observer.stop`).
    """
    distributed = need.torch("distributed")
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return False
    return all(tensor.device.type == "cpu" for tensor in model.parameters())


def _call_site() -> str | None:
    """Return file and line of the innermost call that is neither torch's nor ours."""
    torch = os.path.dirname(need.torch().__file__) + os.sep
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((torch, _OWN, "<")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return None


class _Code(NamedTuple):
    """The source of a function: its file, the number of its first line, and all its lines."""

    file: str
    line: int
    lines: list[str]


def _line_of_code(
    modules: list[tuple[str, Any]], parents: list[int | None], forwards: Mapping[type, _Code | None], number: int
) -> str | None:
    """The line that uses a module, in the `forward` around it that is not torch's; of the outermost one, its `forward`.

    This is read from the source text, without running it. If no line has the module's name, it is the first of that
    `forward`.
    """
    path, module = modules[number]
    own = forwards[type(module)]
    around = parents[number]
    while around is not None and (outer := forwards[type(modules[around][1])]) is None:
        around = parents[around]
    if around is None or outer is None:
        return f"{own.file}:{own.line}" if own is not None else None
    inside = path[len(modules[around][0]) :].lstrip(".")
    name = re.compile(rf"\bself\.{re.escape(inside.partition('.')[0])}\b")
    at = next((place for place, text in enumerate(outer.lines) if name.search(text)), 0)
    return f"{outer.file}:{outer.line + at}"


def _forward_code(kind: type) -> _Code | None:
    """The `forward` of a class of modules, unless torch wrote it or its source is not at hand."""
    torch = os.path.dirname(need.torch().__file__) + os.sep
    try:
        forward = inspect.unwrap(kind.forward)  # type: ignore[attr-defined]
        file = inspect.getsourcefile(forward)
        lines, line = inspect.getsourcelines(forward)
    except (AttributeError, OSError, TypeError):
        return None
    return None if file is None or file.startswith((torch, _OWN)) else _Code(file, line, lines)
