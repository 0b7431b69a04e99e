"""NVTX ranges that mark the running module, for recordings with Nsight Systems."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hotline_analysis.capture import need
from hotline_analysis.errors import HotlineError

if TYPE_CHECKING:
    import torch


class ModuleRanges:
    """The hooks that push NVTX ranges. `remove`, or the end of a `with` block, removes the hooks."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> ModuleRanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


def nvtx(model: torch.nn.Module) -> ModuleRanges:
    """Push the class and path of each module as an NVTX range while the module's `forward` runs.

        hotline_analysis.nvtx(model)
        with torch.autograd.profiler.emit_nvtx(record_shapes=True):
            train(model)

    Only for runs under `nsys profile`: the export then has time per module. Two hooks run on each module call and take
    some microseconds on the CPU, even without a recording; do not use them elsewhere, or `remove` them. The usual
    limits of hooks apply: `torch.compile` breaks its graphs for them or drops them, and direct calls of `forward`
    bypass them. Raises `HotlineError` if this build of torch has no NVTX.
    """
    ranges = need.torch("cuda").nvtx
    try:
        ranges.range_push("hotline_analysis.nvtx")
        ranges.range_pop()
    except RuntimeError as error:
        raise HotlineError(
            "cannot push a range: this build of torch has no NVTX", hint="Install a build of torch for CUDA."
        ) from error

    def pusher(text: str) -> Callable[..., None]:
        def push(*_: object) -> None:
            ranges.range_push(text)

        return push

    def pop(*_: object) -> None:
        ranges.range_pop()

    handles: list[Any] = []
    for path, module in model.named_modules():
        text = f"nn.Module: {type(module).__name__}: {path}"
        handles.append(module.register_forward_pre_hook(pusher(text)))
        handles.append(module.register_forward_hook(pop, always_call=True))
    return ModuleRanges(handles)
