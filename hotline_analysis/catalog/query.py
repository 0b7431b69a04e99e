"""What the SQL files hold once they are read: queries with their parameters and columns, and macros."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, SupportsFloat, SupportsIndex, get_args

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import former_argument, former_word

Kind = Literal["annotate", "views", "answers", "advice", "whatif", "charts", "export"]
ParamType = Literal["BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"]
Value = int | float | str | bool | None

KINDS: tuple[Kind, ...] = get_args(Kind)
PARAM_TYPES: tuple[ParamType, ...] = get_args(ParamType)
PRIVATE = "private"
"""The folder of a subject's tables that only serve others, and are not kept."""

# Text and comments are matched first, so that a `$` inside them is no placeholder.
PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|\$(?P<name>[A-Za-z_]\w*)")
IN_WORDS: Mapping[ParamType, str] = {
    "BIGINT": "a whole number",
    "DOUBLE": "a number",
    "VARCHAR": "text",
    "BOOLEAN": "true or false",
}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Param:
    """A `$name` of a query. `default` means nothing when `required` is true.

    A text may have to be one of `words`, and a number from `least` to `most`. NULL is allowed where it is the default,
    and where `or_null` says so.
    """

    name: str
    type: ParamType
    required: bool
    default: Value
    description: str
    words: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    or_null: bool = False

    @property
    def allowed(self) -> str:
        """What a value can be, in words; nothing if any of the type will do."""
        if self.words:
            return one_of(self.words)
        if self.least is None:
            return ""
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"

    def convert(self, given: object) -> Value:
        """Return a value of the declared type, from it or from text; `null` is NULL where no text is asked for.

        Raises ValueError that says what is allowed.
        """
        if self.type != "VARCHAR" and isinstance(given, str) and given.lower() == "null":
            given = None
        if given is None and not self.required and (self.or_null or self.default is None):
            return None
        try:
            value = _convert(given, self.type)
        except (TypeError, ValueError):
            raise ValueError(IN_WORDS[self.type]) from None
        if self.least is not None and isinstance(value, int | float):
            # Written so that it holds of no NaN.
            if not self.least <= value <= (math.inf if self.most is None else self.most):
                raise ValueError(self.allowed)
        elif self.words and value not in self.words:
            raise ValueError(self.allowed)
        return value


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a query's result, with its DuckDB type."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Query:
    """One SQL file. `sql` is the whole file, so that line numbers in DuckDB's errors are those of the file."""

    name: str
    kind: Kind
    folder: str
    """Where the file is, below `queries`: its kind, and its subject if it has one."""
    summary: str
    description: str
    params: tuple[Param, ...]
    reads: tuple[str, ...]
    writes: str | None
    """The table that a query of `annotate` builds; None for the other kinds."""
    columns: tuple[Column, ...]
    sql: str
    steps: tuple[Query, ...] = ()
    """Tables to make before, in this order; they exist while the query runs."""
    what: str = ""
    """What a rule finds, in words; empty for the other kinds."""
    do: str = ""
    """What a rule advises."""
    scenario: str = ""
    """Which scenario (`prediction`) does what a rule advises; empty if none does."""
    takes: tuple[str, ...] = ()
    """The parameters of its query that a step uses; empty for a query that is no step."""
    only_with: tuple[tuple[str, ...], ...] = ()
    """Of each of these, one must have a row, or the query has none: tables of `reads`, as a FROM clause names them."""
    is_kept: bool = False
    """Whether a view is a table in memory once it has been asked for."""

    @property
    def is_private(self) -> bool:
        """Whether it makes a table that only serves others, and that no run holds."""
        return self.folder.endswith(f"/{PRIVATE}")

    @property
    def file(self) -> str:
        """Its path below `queries`."""
        inside = f"{self.name}/" if self.steps else ""
        return f"{self.folder}/{inside}{self.name}.sql"

    @property
    def uses(self) -> tuple[str, ...]:
        """The parameters that its own statement uses; its steps may use others."""
        used = {match["name"] for match in PLACEHOLDER.finditer(self.sql)}
        return tuple(param.name for param in self.params if param.name in used)

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables and views that the query and its steps need."""
        own = {step.name for step in self.steps}
        read = [name for query in (*self.steps, self) for name in query.reads if name not in own]
        return tuple(dict.fromkeys(read))

    def bind(self, **arguments: object) -> dict[str, Value]:
        """Return a value of the declared type for every parameter.

        A parameter that is left out takes its default. Text, as a command line gives it, is converted. None is accepted
        where it is the default. Raises `QueryParameterError` for a value that the header does not allow.
        """
        declared = {param.name: param for param in self.params}
        hint = f"{self.name} takes {', '.join(declared) or 'no parameters'}."
        for name in arguments:
            if name not in declared:
                instead = former_argument(self.name, name, declared)
                raise QueryParameterError(f"Query {self.name} has no parameter {name}.", hint=instead or hint)
        values: dict[str, Value] = {}
        for param in self.params:
            if param.name not in arguments:
                if param.required:
                    raise QueryParameterError(f"Query {self.name} needs the parameter {param.name}.", hint=hint)
                values[param.name] = param.default
                continue
            try:
                values[param.name] = param.convert(arguments[param.name])
            except ValueError as error:
                raise QueryParameterError(
                    f"Parameter {param.name} of query {self.name} must be {error}, not {arguments[param.name]!r}.",
                    hint=former_word(self.name, param.name, arguments[param.name]),
                ) from None
        return values


@dataclass(frozen=True, slots=True)
class Macro:
    """A function or a table function that the queries share; `sql` is the statement that makes it."""

    name: str
    params: tuple[str, ...]
    subject: str
    """The name of its file in `queries/macros`."""
    description: str
    sql: str
    is_table: bool
    uses: tuple[str, ...]
    """The macros that it is made of, directly or not, in the order in which they must be made before."""


RULE_PARAMS = (
    Param("rank", "BIGINT", True, None, "the process rank"),
    Param("step", "BIGINT", True, None, "the step"),
)
RULE_COLUMNS = (
    Column("event_id", "BIGINT", "the event"),
    Column(
        "effect",
        "VARCHAR",
        "what would become less: work (of the GPU), host (time of a thread) or wait (of a call that waits for the GPU)",
    ),
    Column("track_id", "BIGINT", "its thread or stream"),
    Column("start_ns", "BIGINT", "its start"),
    Column("end_ns", "BIGINT", "its end"),
    Column("saved_ns", "BIGINT", "so much less at most"),
    Column("name", "VARCHAR", "what it is, in short"),
)


def _convert(given: object, type_: ParamType) -> Value:
    """Convert from the declared type or from text. TypeError or ValueError says that it cannot be done."""
    if type_ == "VARCHAR":
        if not isinstance(given, str):
            raise TypeError
        return given
    if type_ == "BOOLEAN":
        if isinstance(given, bool):
            return given
        if not isinstance(given, str) or given.lower() not in _TRUTH:
            raise TypeError
        return _TRUTH[given.lower()]
    if isinstance(given, bool):
        raise TypeError
    if type_ == "DOUBLE":
        if not isinstance(given, (str, SupportsFloat)):
            raise TypeError
        return float(given)
    if not isinstance(given, (str, SupportsIndex)):
        raise TypeError
    number = int(given)
    if not -(2**63) <= number < 2**63:
        raise ValueError
    return number
