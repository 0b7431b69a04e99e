"""Parsed SQL files: queries with their parameters and columns, and macros."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, SupportsFloat, SupportsIndex, get_args

from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import COLUMN_TYPES, former_argument, former_word

Kind = Literal["annotate", "views", "answers", "advice", "whatif", "charts", "export"]
ParamType = Literal["BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"]
Value = int | float | str | bool | None

KINDS: tuple[Kind, ...] = get_args(Kind)
PARAM_TYPES: tuple[ParamType, ...] = get_args(ParamType)
PRIVATE = "private"
"""Folder name of intermediate tables of a subject, which no run stores."""

# Texts and comments are matched first, so a `$` inside them is not a placeholder.
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
    """A `$name` parameter of a query. `default` has no meaning if `required` is true.

    A text may be restricted to `words`, and a number to the range from `least` to `most`. NULL is allowed if it is the
    default, or if `or_null` is true.
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
        """The allowed values in words; empty if every value of the type is allowed."""
        if self.words:
            return one_of(self.words)
        if self.least is None:
            return ""
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"

    def convert(self, given: object) -> Value:
        """Return the value converted to the declared type. Text is parsed; `null` is NULL except for VARCHAR.

        Raises ValueError with a description of the allowed values.
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
            # Written so that NaN fails the check.
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
    """One SQL file. `sql` is the whole file, so line numbers in DuckDB's errors match the file."""

    name: str
    kind: Kind
    folder: str
    """The file's folder below `queries`: the kind, and the subject if there is one."""
    summary: str
    description: str
    params: tuple[Param, ...]
    reads: tuple[str, ...]
    writes: str | None
    """The table built by a query of `annotate`; `None` for other kinds."""
    columns: tuple[Column, ...]
    sql: str
    steps: tuple[Query, ...] = ()
    """Tables to create before the query runs, in this order. They exist only while it runs."""
    what: str = ""
    """The finding of a rule, in words; empty for other kinds."""
    do: str = ""
    """The remedy of a rule."""
    scenario: str = ""
    """The scenario (`prediction`) of a rule's remedy; empty if there is none."""
    takes: tuple[str, ...] = ()
    """The parameters of the query used by a step; empty if this query is not a step."""
    only_with: tuple[tuple[str, ...], ...] = ()
    """Conditions for a result: in each group, at least one table of `reads` (a FROM clause) must have a row."""
    is_kept: bool = False
    """Whether a view is stored as an in-memory table after its first use."""

    @property
    def is_private(self) -> bool:
        """Whether the query builds an intermediate table that no run stores."""
        return self.folder.endswith(f"/{PRIVATE}")

    @property
    def file(self) -> str:
        """Path of the file below `queries`."""
        subfolder = f"{self.name}/" if self.steps else ""
        return f"{self.folder}/{subfolder}{self.name}.sql"

    @property
    def uses(self) -> tuple[str, ...]:
        """Parameters used by the query's own statement. The steps may use others."""
        names = {match["name"] for match in PLACEHOLDER.finditer(self.sql)}
        return tuple(param.name for param in self.params if param.name in names)

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables and views required by the query and its steps."""
        step_names = {step.name for step in self.steps}
        names = [name for query in (*self.steps, self) for name in query.reads if name not in step_names]
        return tuple(dict.fromkeys(names))

    def bind(self, **arguments: object) -> dict[str, Value]:
        """Return a value of the declared type for every parameter.

        A missing parameter takes its default. Text from a command line is converted. None is accepted if it is the
        default. Raises `QueryParameterError` for a value outside the header's limits.
        """
        by_name = {param.name: param for param in self.params}
        hint = f"{self.name} takes {', '.join(by_name) or 'no parameters'}."
        for name in arguments:
            if name not in by_name:
                former_hint = former_argument(self.name, name, by_name)
                raise QueryParameterError(f"Query {self.name} has no parameter {name}.", hint=former_hint or hint)
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
    """A scalar or table function shared by the queries. `sql` is the statement that creates it."""

    name: str
    params: tuple[str, ...]
    subject: str
    """Name of the macro's file in `queries/macros`."""
    description: str
    sql: str
    is_table: bool
    uses: tuple[str, ...]
    """Macros used directly or indirectly, in dependency order."""


RANK_COLUMN = Column(*COLUMN_TYPES["RANK"])
"""The column that every table of a run has in addition to the columns of its file."""

RULE_PARAMS = (
    Param("rank", "BIGINT", True, None, "the process rank"),
    Param("step", "BIGINT", True, None, "the step"),
)
RULE_COLUMNS = (
    Column("event_id", "BIGINT", "the event"),
    Column(
        "effect",
        "VARCHAR",
        "affected time: work (of the GPU), host (of a thread) or wait (of a call waiting for the GPU)",
    ),
    Column("track_id", "BIGINT", "thread or stream of the event"),
    Column("start_ns", "BIGINT", "start of the event"),
    Column("end_ns", "BIGINT", "end of the event"),
    Column("saved_ns", "BIGINT", "maximum saving"),
    Column("name", "VARCHAR", "short description"),
)


def _convert(given: object, type_: ParamType) -> Value:
    """Convert a value of the declared type or a text. Raises TypeError or ValueError if this is impossible."""
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
