"""Arguments that take one of a few words."""

from __future__ import annotations

from typing import get_args

from hotline_analysis.errors import QueryParameterError


def check(name: str, value: str, choices: object) -> None:
    """Raise `QueryParameterError` if a value is none of the words of a `Literal` type."""
    words = get_args(choices)
    if value not in words:
        raise QueryParameterError(f"{name} must be one of {', '.join(words)}, not {value!r}")
