"""The only import of torch, with one error message if torch is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hotline_analysis.errors import HotlineError


def torch(submodule: str = "") -> Any:
    """Return torch or one of its submodules. Raises `HotlineError` if torch is not installed."""
    try:
        return import_module(f"torch.{submodule}" if submodule else "torch")
    except ImportError as error:
        raise HotlineError(
            f"capturing needs torch: {error}", hint="Install it: pip install 'hotline-analysis[torch]'."
        ) from error
