"""The one place where torch is imported, so that its absence is said in one way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hotline_analysis.errors import HotlineError


def torch(submodule: str = "") -> Any:
    """Return torch, or a submodule of it. Raises `HotlineError` if it is not installed."""
    try:
        return import_module(f"torch.{submodule}" if submodule else "torch")
    except ImportError as error:
        raise HotlineError(
            f"capturing needs torch: {error}", hint="Install it: pip install 'hotline-analysis[torch]'."
        ) from error
