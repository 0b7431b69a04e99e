"""Count the zeros in ReLU outputs once, outside the measurement: the potential saving of sparse storage."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from hotline_analysis.capture import need

METADATA_KEY = "hotline_zeros_pct"
"""Key of the zero shares in a trace file: a JSON object, percent by module path."""

# Functions whose results `encodings` may store without zeros: ReLU, and pooling, which keeps the ReLU's zeros.
_FUNCTION = re.compile(r"relu_?|max_pool.*")


class ZeroCount:
    """Keeps the ReLU and pooling results of one forward pass on this thread, then counts their zeros.

    The hook works at the `__torch_function__` level and changes no op, so the recorder sees the same pass. Only results
    needed for backward are kept, so the count needs no extra memory. Compiled code is not seen.
    """

    def __init__(self, module_at: Callable[[int], int | None]) -> None:
        self._module_at = module_at  # returns the innermost module on a thread
        self._held: list[tuple[int, Any]] = []
        self._mode: Any = None

    def start(self) -> None:
        """Start to watch torch functions called from Python."""
        base = need.torch("overrides").TorchFunctionMode
        hold = self._hold

        class Looking(base):  # type: ignore[misc, valid-type]
            def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = function(*args, **(kwargs or {}))
                hold(function, result)
                return result

        self._mode = Looking()
        self._mode.__enter__()

    def stop(self) -> None:
        """Stop watching."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None

    def _hold(self, function: Any, result: Any) -> None:
        if not _FUNCTION.fullmatch(getattr(function, "__name__", "")):
            return
        tensor = result[0] if isinstance(result, tuple) else result
        if not getattr(tensor, "requires_grad", False):
            return
        if (module := self._module_at(threading.get_ident())) is not None:
            self._held.append((module, tensor))

    def by_module(self) -> dict[int, float]:
        """Return the percentage of zeros in each module's results, and release the results."""
        counts: dict[int, tuple[int, int]] = {}
        for module, tensor in self._held:
            zeros, values = counts.get(module, (0, 0))
            nonzero = int(tensor.detach().count_nonzero())
            counts[module] = (zeros + tensor.numel() - nonzero, values + tensor.numel())
        self._held.clear()
        return {module: 100 * zeros / values for module, (zeros, values) in counts.items() if values}
