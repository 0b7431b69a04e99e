"""Python functions of the answers that are one query each: the query's header gives signature and docstring."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Literal  # noqa: F401  # the annotations of the functions name it, and the types of the next import

import polars as pl

from hotline_analysis.catalog import Param, Query
from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import WORDS, GapCause, HostCause, IdleCause, KernelClass, Phase, UseCause  # noqa: F401

_HINTS = {"BIGINT": "int", "DOUBLE": "float", "BOOLEAN": "bool", "VARCHAR": "str"}
_ALIASES = {words: "".join(part.title() for part in name.split("_")) for name, words in WORDS.items()}
_POSITIONAL = "limit"  # the only argument besides the trace that may be positional
_WIDTH = 112  # of a line in a docstring


def function_of(query: Query) -> Callable[..., pl.DataFrame]:
    """Return a function that asks a trace this query, with the query's parameters as arguments."""
    signature = signature_of(query)

    def answer(*args: object, **named: object) -> pl.DataFrame:
        try:
            arguments = signature.bind(*args, **named).arguments
        except TypeError as error:
            raise TypeError(f"{query.name}(): {error}") from None
        trace: Trace = arguments.pop("trace")
        return trace.query(query.name, **arguments)

    answer.__name__ = answer.__qualname__ = query.name
    answer.__module__ = "hotline_analysis.answers.generated"
    answer.__doc__ = docstring(query)
    answer.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    answer.__annotations__["return"] = signature.return_annotation
    setattr(answer, "__signature__", signature)  # noqa: B010  # mypy knows no such attribute of a function
    return answer


def signature_of(query: Query) -> Signature:
    """The signature of a query's function: the trace, then `limit`, then arguments by name, required ones first."""
    params = sorted(query.params, key=lambda param: (param.name != _POSITIONAL, not param.required))
    arguments = [
        Parameter(
            param.name,
            Parameter.POSITIONAL_OR_KEYWORD if param.name == _POSITIONAL else Parameter.KEYWORD_ONLY,
            default=Parameter.empty if param.required else param.default,
            annotation=_hint(param),
        )
        for param in params
    ]
    trace = Parameter("trace", Parameter.POSITIONAL_OR_KEYWORD, annotation="Trace")
    return Signature([trace, *arguments], return_annotation="pl.DataFrame")


def types_of(query: Query) -> set[str]:
    """The types of `vocabulary` that the signature names."""
    return {_ALIASES[param.words] for param in query.params if param.words in _ALIASES}


def _hint(param: Param) -> str:
    words = ", ".join(f'"{word}"' for word in param.words)
    hint = _ALIASES.get(param.words) or (f"Literal[{words}]" if words else _HINTS[param.type])
    return f"{hint} | None" if param.or_null or (not param.required and param.default is None) else hint


def docstring(query: Query) -> str:
    """The description of a query with its parameters and the names of its columns."""
    text = f"{query.summary}\n\n{query.description}".strip()
    prose = [filled(line, "  " if line.startswith("- ") else "") for line in text.splitlines()]
    named = [param.name for param in query.params]
    listed = [name for name in signature_of(query).parameters if name in named]
    descriptions = {param.name: param.description for param in query.params}
    arguments = [filled(f"* `{name}`: {descriptions[name]}", "  ") for name in listed]
    columns = ", ".join(f"`{column.name}`" for column in query.columns)
    end = filled(f"Columns: {columns}. `hotline queries {query.name}` describes the columns.")
    return "\n\n".join(["\n".join(prose), *(["\n".join(arguments)] if arguments else []), end])


def filled(text: str, hang: str = "") -> str:
    """Break a paragraph into lines of a docstring."""
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"\n{hang}".join(lines)
