"""Ops with shapes, and their kernels."""

from __future__ import annotations

from typing import Any


def shaped(dtype: str, *dims: list[int], concrete: list[str] | None = None) -> dict[str, Any]:
    """The arguments of an op with tensors of one type."""
    values = {} if concrete is None else {"Concrete Inputs": concrete}
    return {"Input Dims": list(dims), "Input type": [dtype if each else "Scalar" for each in dims], **values}
