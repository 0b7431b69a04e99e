"""Learn the order of modules and their ops from one forward pass, outside the measurement.

With `shapes`, also learn the ops' arguments in that pass and in the following backward pass.
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
_INSIDE = "_orig_mod"  # attribute of `torch.compile`'s wrapper that holds the original module
_USER_SCOPE = 7  # scope of a record_function range in the profiler's events
_OWN = os.path.dirname(__file__) + os.sep

REGION = ("TorchDynamo Cache Lookup", "Torch-Compiled Region")
"""The ops recorded at a call of compiled code."""


def model_ops(model: Any, *inputs: Any, **kwargs: Any) -> ModelOps:
    """Run `model(*inputs, **kwargs)` once and return its modules, ops and parameters, without a profiler.

    The pass uses the model's current mode (training or evaluation) and the caller's gradient and autocast settings. Use
    the settings of the training loop, because the ops depend on them. Random state and buffers (such as batch norm's
    running averages) are restored afterwards, and the outputs are discarded. Other side effects of the pass, such as
    filling a model's own cache, remain. Raises `HotlineError` if `model` is not a `torch.nn.Module`.
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
    """Restore random state and buffers afterwards."""
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
            for module, name, buffer, copy in buffers:
                buffer.copy_(copy)
                module._buffers[name] = buffer


class Turn:
    """Lets several models be learned one at a time with a shared observer: torch allows one observer per process."""

    def __init__(self) -> None:
        self.learner: Learner | None = None
        """The learner that is watching a forward pass now."""
        self._observer: Observer | None = None

    def observe(self, learner: Learner) -> Observer | None:
        """Return the observer for a starting forward pass, shared with models still waiting for their backward pass."""
        if self._observer is None or self._observer.is_over:
            self._observer = Observer.started()
        else:
            self._observer.go_on(is_backward=False)
        if self._observer is not None:
            self._observer.join(learner)
        return self._observer


class Learner:
    """Watches the model's next unrecorded forward pass, then removes all hooks.

    If a profiler is already recording, or the model is compiled, the learner does not watch, so that it never disturbs
    a measurement. Compiled submodules run uncompiled in that pass, and their ops are the ops of compiled code. With
    `shapes`, the first unrecorded backward pass from the forward outputs is observed too. With `count_zeros`, zeros in
    ReLU outputs are counted after the forward pass. Models learned together share a `turn`; a pass inside another
    model's pass is not watched.
    """

    def __init__(self, model: Any, *, shapes: bool = True, count_zeros: bool = False, turn: Turn | None = None) -> None:
        self._model = plain_model(model)
        self._turn = turn or Turn()
        self._ran_inside = False  # during a pass of another model
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
        self._part = 0  # the observer's part with the forward pass
        self._events: list[Any] = []  # of the forward pass, until processed
        self._calls: list[Call] = []  # of the forward pass, from its start
        self._backward_calls: list[list[Call]] = []  # by part of the observer
        self._output_handles: list[Any] = []
        self._notes: list[str] = []
        self._parents = _registered_parents(self._modules)
        self._recording = False
        self._complete = False
        self._graphs = 0
        self._compiled: set[int] = set()
        self._stance: Any = None
        if (reason := opaque(model)) is None:
            self._handles.append(model.register_forward_pre_hook(_unless_compiling(self._begin), prepend=True))
        else:
            self._notes.append(f"{type(model).__name__} is {reason}: module order and ops are not visible")

    @property
    def hooks(self) -> int:
        """The current number of hooks on the model."""
        return len(self._handles)

    def close(self) -> None:
        """Stop watching and remove all hooks."""
        for handle in (*self._handles, *self._output_handles):
            handle.remove()
        self._handles.clear()
        self._output_handles.clear()
        if self._turn.learner is self:
            self._turn.learner = None
        self._finish()
        if self._zeros is not None:
            self._zeros.stop()
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None

    def result(self) -> ModelOps:
        """Return the model-op table, in execution order, or in registration order if no forward pass was watched."""
        self._finish()
        self._understand()
        notes = list(self._notes)
        if not self._complete and not notes:
            clause = " outside another given model" if self._ran_inside else ""
            notes.append(f"no forward pass was seen{clause}: the modules are in registration order")
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
        """Return the percentage of zeros in ReLU outputs, by module path."""
        paths = {module.number: module.path for module in _describe(self._modules, self._parents)}
        return {paths[number]: share for number, share in self._zero_shares.items()}

    @property
    def modules(self) -> dict[str, Any]:
        """The modules by path."""
        return dict(self._modules)

    # --- hooks -------------------------------------------------------------------------------------------------------

    def _begin(self, *_: Any) -> None:
        """Before the first forward pass: hook every module, or give up if a measurement could include the hooks."""
        if self._turn.learner is not None:
            self._ran_inside = True
            return
        self.close()
        if need.torch("autograd")._profiler_enabled():
            self._notes.append(
                "the first forward pass was recorded already: the modules are in registration order;"
                " let one pass run before the recording (schedule with warmup=1), or give `inputs`"
            )
            return
        reasons = [_COMPILED[0] if number in self._wrapped else opaque(inner) for number, inner in self._numbered()]
        if not set(reasons).isdisjoint(_COMPILED):
            self._stance = _without_compiled_code()
        visible_below: dict[str, bool] = {}  # by path prefix: whether modules below are visible
        for (number, module), reason in zip(self._numbered(), reasons, strict=True):
            path = self._modules[number][0]
            is_seen = [is_visible for prefix, is_visible in visible_below.items() if path.startswith(prefix)]
            if reason is not None and not is_seen:
                is_seen = [reason in _COMPILED and self._stance is not None]
                visible_below[path + "."] = is_seen[0]
                if is_seen[0]:
                    self._compiled.add(number)
                    self._notes.append(f"{path} is {reason}: the time of compiled code is not divided by module")
                else:
                    self._notes.append(f"{path} is {reason}: nested modules and ops are not visible")
            if all(is_seen):
                self._hook(number, module)
            else:
                self._hidden.add(number)
        self._graphs = _compiled_graphs()
        self._recording = _start_recording()
        if not self._recording:
            self._notes.append("this version of torch does not report the names of ops")
        if self._with_shapes and _communicates_on_the_cpu(self._model):
            self._with_shapes = False
            self._notes.append(
                "the shapes of ops are not learned where processes exchange gradients on the CPU; record_shapes=True"
                " of the profiler records them"
            )
        self._observer = self._turn.observe(self) if self._recording and self._with_shapes else None
        self._part = self._observer.part if self._observer is not None else 0
        self._turn.learner = self
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
        """After the first forward pass, whether successful or not."""
        self._exit(0)
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.pause()
        self.close()
        lists = _stop_recording() if self._recording else []
        if arguments[-1] is None and sys.exc_info()[0] is not None:
            self._notes.append("the first forward pass failed: the modules are in registration order")
            if observer is not None:
                observer.leave(self)
            return
        self._complete = True
        if self._zeros is not None:
            self._zero_shares = self._zeros.by_module()
        if _compiled_graphs() != self._graphs:
            self._notes.append(
                "code was compiled during the pass: the ops include compilation, and the next pass compiles again"
                " (without the hooks); run the model once before analyze()"
            )
        self._observer = observer
        self._events = next((events for events in lists if any(event.name() == f"{_MARK}0" for event in events)), [])
        outputs = _made(arguments[-1]) if observer is not None and self._events else []
        self._output_handles += [tensor.register_hook(self._begin_backward) for tensor in outputs]
        if not outputs:
            self._finish()
        if len({seen.thread for seen in self._seen.values()}) > 1:
            self._notes.append("some modules ran on other threads: their ops are not visible, replicas count once")

    # --- backward ----------------------------------------------------------------------------------------------------

    def _begin_backward(self, _: Any) -> None:
        """When the gradient of the outputs is available: observe until the autograd engine is done."""
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
        elif self._observer is not None:
            self._observer.go_on()

    def _finish(self) -> None:
        """Stop observing. Process the observed calls, unless another model still waits for its backward pass."""
        if self._observer is not None:
            self._observer.leave(self)
        if self._observer is None or self._observer.is_over:
            self._understand()

    def _understand(self) -> None:
        """Extract the forward ops and the backward calls from the observations. Does nothing if already done."""
        forward: list[Call] = []
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            forward, self._backward_calls = observer.forward(self._part), observer.backward(self._part)
        events, self._events = self._events, []
        if not events:
            return
        self._calls = _same_calls(events, forward)
        self._ops = _outermost(events, self._compiled, self._calls)
        if self._with_shapes and not self._calls:
            self._notes.append(
                "the shapes of ops are unknown: this version of torch does not report shapes, or another"
                " observer is active"
            )

    def _node_trees(self) -> list[NodeTree]:
        """Return the calls in each autograd node, with the creating op: the last op with the sequence number."""
        makers: dict[int, tuple[int, int] | None] = {call.sequence: None for call in self._calls}
        owners = {}
        for number, op in enumerate(self._ops):
            if op.tree is not None:
                owners.update(
                    {index: (number, position) for position, index in enumerate(places_of(self._calls, op.at))}
                )
        for index, call in enumerate(self._calls):
            makers[call.sequence] = owners.get(index)
        threads: dict[tuple[int, int], list[Call]] = {}
        for part, part_calls in enumerate(self._backward_calls):
            for call in part_calls:
                threads.setdefault((part, call.thread), []).append(call)
        trees: dict[tuple[int, int], NodeTree] = {}  # the first use, if a graph is used again
        for calls in map(_with_first_node, threads.values()):
            for index, call in enumerate(calls):
                if not call.name.startswith(ENGINE):
                    continue
                indices = places_of(calls, index)
                inner_calls = [calls[position] for position in indices[1:]]
                node = next((inner for inner in inner_calls if inner.is_node), None)
                is_nested = any(inner.name.startswith(ENGINE) for inner in inner_calls)
                if node is None or is_nested or node.sequence < 0 or node.forward_thread != self._calls[0].thread:
                    continue
                if (maker := makers.get(node.sequence)) is not None:
                    trees.setdefault(maker, NodeTree(*maker, tree_of(calls, index)))
        return list(trees.values())

    def _module_at(self, thread: int) -> int | None:
        stack = self._stacks.get(thread)
        return stack[-1][0] if stack else None

    def _called_parent(self, number: int) -> int | None:
        parent = self._parents[number]
        while parent is not None and parent not in self._seen:
            parent = self._parents[parent]
        return parent


def _unless_compiling(hook: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook to do nothing while a compiler traces through it, so that compilation is unaffected."""
    is_compiling = need.torch("compiler").is_compiling

    def wrapped(*arguments: Any) -> None:
        if not is_compiling():
            hook(*arguments)

    return wrapped


# --- ops -------------------------------------------------------------------------------------------------------------


def _start_recording() -> bool:
    """Start recording op names as the profiler does. Return False if this version of torch cannot.

    The legacy (pre-Kineto) recorder sees the same ops as Kineto, needs no file, and runs while Kineto only warms up.
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
    """Return the observed calls of the pass, from its mark on; empty if they differ from the recorded events."""
    mark = f"{_MARK}0"
    names = [event.name() for event in events if event.kind() == "push"]
    names = names[names.index(mark) :]
    begin = next((index for index, call in enumerate(observed) if call.name == mark), None)
    if begin is None:
        return []
    calls = [call for call in observed[begin:] if call.thread == observed[begin].thread]
    length = next((index for index, call in enumerate(calls) if index and call.depth <= calls[0].depth), len(calls))
    is_same = [call.name for call in calls[:length]] == names[:length] and length > 1
    return calls[:length] if is_same else []


def _with_first_node(calls: list[Call]) -> list[Call]:
    """Add the missing engine call of the first node to a thread's backward calls: the observer started inside."""
    engine = next((index for index, call in enumerate(calls) if call.name.startswith(ENGINE)), len(calls))
    node = next((index for index, call in enumerate(calls[:engine]) if call.is_node), None)
    if node is None:
        return calls
    call = replace(calls[node], name=ENGINE + calls[node].name, arguments=None, is_node=False)
    return [call, *(replace(inner, depth=inner.depth + 1) for inner in calls[node:engine]), *calls[engine:]]


def _made(output: Any, depth: int = 3) -> list[Any]:
    """Return the tensors in a model's output from which a backward pass can start."""
    if isinstance(output, need.torch().Tensor):
        return [output] if output.grad_fn is not None else []
    if isinstance(output, Mapping):
        output = list(output.values())
    if not isinstance(output, tuple | list) or not depth:
        return []
    return [tensor for part in output for tensor in _made(part, depth - 1)]


def _is_function(op: Op, module: int) -> bool:
    """Whether an op belongs to this module and is a Python function, such as a checkpoint or a replayed graph."""
    return op.module == module and "::" not in op.name


def _outermost(events: Iterable[Any], compiled: Collection[int] = (), observed: Sequence[Call] = ()) -> list[Op]:
    """Return the outermost ops of each module, in order. A compiled module has the ops of a region instead.

    `observed` has the calls from the first mark on, or is empty without an observer.
    """
    index = -1  # index in `observed`
    ops = []
    calls: dict[int, int] = {}
    modules: list[tuple[int, int]] = []  # module number, and number of ops around its mark
    open_marks: dict[int, str] = {}
    depth = 0
    in_compiled = 0  # number of open modules when the compiled module was entered
    for event in events:
        kind = event.kind()
        if kind == "push":
            name = event.name()
            if index >= 0 or name == f"{_MARK}0":
                index += 1
            if event.scope() != _USER_SCOPE:
                if modules and depth == modules[-1][1] and not in_compiled:
                    number = modules[-1][0]
                    tree = _tree_without_modules(observed, index)
                    ops.append(Op(name, number, calls[number], depth, index, tree))
                depth += 1
                open_marks[event.handle()] = "op"
            elif name.startswith(_MARK):
                number = int(name.removeprefix(_MARK))
                if ops and modules and depth > modules[-1][1] and _is_function(ops[-1], modules[-1][0]):
                    ops.pop()  # this op calls modules, which have their own ops
                calls[number] = calls.get(number, -1) + 1
                modules.append((number, depth))
                open_marks[event.handle()] = "module"
                if number in compiled and not in_compiled:
                    in_compiled = len(modules)
                    ops += [Op(name, number, calls[number], depth) for name in REGION]
        elif kind == "pop":
            mark_kind = open_marks.pop(event.handle(), None)
            if mark_kind == "op":
                depth -= 1
            elif mark_kind == "module":
                modules.pop()
                if len(modules) < in_compiled:
                    in_compiled = 0
    return ops


def _tree_without_modules(observed: Sequence[Call], at: int) -> Tree | None:
    """Return the calls in an op; None if the op calls a module, because the module's ops are listed separately."""
    if at >= len(observed):
        return None
    end = next((index for index in range(at + 1, len(observed)) if observed[index].depth <= observed[at].depth), None)
    if any(call.name.startswith(_MARK) for call in observed[at:end]):
        return None
    return tree_of(observed, at)


# --- modules ---------------------------------------------------------------------------------------------------------


def opaque(module: Any) -> str | None:
    """Return why the inside of a module cannot be watched without changing it; None if it can."""
    if _is_wrapper(module):
        return _COMPILED[0]
    if getattr(module, "_compiled_call_impl", None) is not None:
        return _COMPILED[1]
    if isinstance(module, need.torch("jit").ScriptModule):
        return "compiled with TorchScript"
    return None


def kind_of(model: Any) -> str:
    """Describe an object that is not a model, for messages: `a list`, or `the class Net`."""
    return f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"


def plain_model(model: Any) -> Any:
    """Return the module inside a `torch.compile(module)` wrapper; any other module unchanged."""
    return getattr(model, _INSIDE, model)


def _is_wrapper(module: Any) -> bool:
    """Whether this module is the wrapper made by `torch.compile(module)`."""
    return type(module).__name__ == "OptimizedModule" and hasattr(module, _INSIDE)


def _without_wrappers(model: Any) -> tuple[list[tuple[str, Any]], set[int]]:
    """Return the modules by path without `torch.compile` wrappers, and the numbers of the wrapped modules."""
    if not hasattr(model, "named_modules") or isinstance(model, type):
        raise HotlineError(
            f"the model is {kind_of(model)}, not a torch.nn.Module",
            hint="Give the trained module. To open a trace file, use `load` or `hotline report`.",
        )
    modules = [(path, module) for path, module in model.named_modules() if not _is_wrapper(module)]
    numbers = {number for number, (path, _) in enumerate(modules) if path.endswith(f".{_INSIDE}")}
    return [(_plain(path), module) for path, module in modules], numbers


def _plain(path: str) -> str:
    """Return a path without the names of `torch.compile` wrappers."""
    return ".".join(name for name in path.split(".") if name != _INSIDE)


def _without_compiled_code() -> Any:
    """Run compiled code uncompiled until the returned context exits; None if torch cannot (before 2.6)."""
    set_stance = getattr(need.torch("compiler"), "set_stance", None)
    return None if set_stance is None else set_stance("force_eager")


def _compiled_graphs() -> int:
    """Return the number of graphs made by torch.compile in this process."""
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
    """Return the enclosing module of each module, by path."""
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
    descriptions = []
    forwards = {kind: _forward_code(kind) for kind in {type(module) for _, module in modules}}
    for number, (path, module) in enumerate(modules):
        sizes = [size for parameter in module.parameters() if (size := _size(parameter)) is not None]
        descriptions.append(
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
    return descriptions


def _size(parameter: Any) -> tuple[int, int] | None:
    """Return the number of elements and bytes; None for an uninitialised parameter of a lazy module."""
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
    """Whether gloo threads exchange the gradients: these threads end ops whenever another process is done.

    Torch's execution trace observer can crash in this situation (`Observer.stop`).
    """
    distributed = need.torch("distributed")
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return False
    return all(tensor.device.type == "cpu" for tensor in model.parameters())


def _call_site() -> str | None:
    """Return file and line of the innermost call outside torch and this package."""
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
    """Return the source line that uses a module, in the closest enclosing `forward` not written by torch.

    For the outermost module, return the line of the module's own `forward`. The line is found in the source text,
    without running it. If no line contains the module's name, return the first line of the enclosing `forward`.
    """
    path, module = modules[number]
    own_code = forwards[type(module)]
    parent = parents[number]
    while parent is not None and (outer := forwards[type(modules[parent][1])]) is None:
        parent = parents[parent]
    if parent is None or outer is None:
        return f"{own_code.file}:{own_code.line}" if own_code is not None else None
    inner_path = path[len(modules[parent][0]) :].lstrip(".")
    name = re.compile(rf"\bself\.{re.escape(inner_path.partition('.')[0])}\b")
    offset = next((index for index, text in enumerate(outer.lines) if name.search(text)), 0)
    return f"{outer.file}:{outer.line + offset}"


def _forward_code(kind: type) -> _Code | None:
    """Return the source of a module class's `forward`; None if torch wrote it or the source is unavailable."""
    torch = os.path.dirname(need.torch().__file__) + os.sep
    try:
        forward = inspect.unwrap(kind.forward)  # type: ignore[attr-defined]
        file = inspect.getsourcefile(forward)
        lines, line = inspect.getsourcelines(forward)
    except (AttributeError, OSError, TypeError):
        return None
    return None if file is None or file.startswith((torch, _OWN)) else _Code(file, line, lines)
