"""Find the SQL files under `queries/` and read their headers.

The first folder says what a query is for and when it runs (its kind), the second one its subject:

    annotate/   builds one table of one rank during import; those in a folder `private` are not kept
    views/      a view over the tables of all ranks, made when a run is opened
    answers/    answers one question about a run
    advice/     finds time of one step that is spent for nothing
    whatif/     gives predictions the rows that they change
    charts/     gives one chart its rows
    export/     gives one exporter its rows

Each query is one file, and its leading comment is its contract:

    -- GPU idle time inside each training step.        the summary: the first paragraph
    --
    -- Idle is the time in which no kernel runs.       the description: further paragraphs
    --
    -- :param step BIGINT = NULL     only this step    without `=` the parameter is required
    -- :param by VARCHAR in (op, step) = 'op'  rows    the words that it can be
    -- :param limit BIGINT >= 0 = 10 so many rows      the least number that it can be; the most follows as `<= 99`
    -- :param n BIGINT >= 0 or NULL = 10 rows          NULL may be given, although it is not the default
    -- :param phase PHASE = NULL     only this phase   a type with a meaning, whose words stand in `vocabulary`
    -- :reads gpu_busy, step                           the tables, views and steps it needs
    -- :writes step_idle                               annotate only; the query's own name if left out
    -- :only_with kernel or copy                       no answers or views; no row where both of these have none
    -- :only_with event where dur_ns > 0               no row where no event has a duration
    -- :column idle_ns BIGINT        GPU idle time     in the order of the result

A query that is too long for one statement is a folder of its name, `idle/`, with the query itself, `idle/idle.sql`, and
its steps beside it. A step is a table that exists while the query runs, and nothing else may read it. Its header names
the query's parameters that it uses (`:takes step, phase`). `:reads` gives the order.

The queries of `advice/` all have the same parameters and columns (`RULE_PARAMS`, `RULE_COLUMNS`), so they declare none,
but what they find and what to do about it:

    -- :what small kernels                             how many and their time follow; `{name}` is the one with most
    -- :do fuse them                                   a sentence
    -- :scenario compile                               what predicts the gain of doing so; may be left out

A directive may go on in lines that are indented further. The file name is the query's name, unique among all. A header
that breaks these rules is a mistake in this package, and raises ValueError.

What many queries have in common is a macro. `macros/<subject>.sql` begins with a comment on the subject, and holds one
or more of them, each after a comment that says what it gives:

    -- Whether a value is the one that is asked for.
    create or replace macro is_asked(asked, value) as
    asked is null or value = asked;

`rules/<table>.csv` holds rules that are data: what names of events and of modules say. The annotation has a table of
each, with the columns of the file; an empty field is NULL, and `position` is the number of the rule, as in most of them
the first one that matches counts. `why` says more about a rule, or about it and those that follow; no table has it.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from typing import TYPE_CHECKING, Literal, SupportsFloat, SupportsIndex, get_args

from hotline_analysis.errors import QueryNotFoundError, QueryParameterError
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import WORDS, former_argument, former_word

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import duckdb
    import pyarrow as pa

Kind = Literal["annotate", "views", "answers", "advice", "whatif", "charts", "export"]
ParamType = Literal["BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"]
Value = int | float | str | bool | None

KINDS: tuple[Kind, ...] = get_args(Kind)
COMPUTED = (
    "advice",
    "critical_path",
    "critical_path_breakdown",
    "detail_size",
    "diff",
    "encodings_total",
    "frequent_kernel_patterns",
    "gpu_efficiency",
    "gpu_or_cpu_bound",
    "optimizer_bottleneck",
    "step_limits",
    "tensor_core_use",
)
"""Answers that are no SQL file but a function over queries, which `hotline_analysis.answers.named` has."""
PARAM_TYPES: tuple[ParamType, ...] = get_args(ParamType)
PRIVATE = "private"
"""The folder of a subject's tables that only serve others, and are not kept."""

_NAME = r"[a-z][a-z0-9_]*"
_PARAM = re.compile(
    rf"(?P<name>{_NAME}) +(?P<type>{'|'.join((*PARAM_TYPES, *WORDS))})"
    rf"(?: +in +\((?P<words>{_NAME}(?:, *{_NAME})*)\)| *>= *(?P<least>\d+)(?: *<= *(?P<most>\d+))?)?"
    r"(?P<or_null> +or +NULL)?(?: *= *(?P<default>'(?:[^']|'')*'|[^\s']+))? +(?P<description>[^\s=].*)"
)
_COLUMN = re.compile(rf"(?P<name>{_NAME}) +(?P<type>[A-Z][A-Z0-9_]*(?:\(.*?\))?(?:\[\])*) +(?P<description>\S.*)")
_MACRO = re.compile(
    rf"(?P<comment>(?:--[^\n]*\n)+)(?P<sql>create or replace macro (?P<name>{_NAME})"
    rf"\((?P<params>(?:{_NAME}(?:, {_NAME})*)?)\) as(?P<table> table)?\s.*;)\n",
    re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*")
_NAMES = re.compile(rf"{_NAME}(?: *, *{_NAME})*")
_ONLY_WITH = re.compile(rf"(?P<names>{_NAME}(?: or {_NAME})*)|(?P<table>{_NAME}) where (?P<where>\S.*)")
# Text and comments are matched first, so that a `$` inside them is no placeholder.
_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|\$(?P<name>[A-Za-z_]\w*)")
_IN_WORDS: Mapping[ParamType, str] = {
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
            raise ValueError(_IN_WORDS[self.type]) from None
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
        used = {match["name"] for match in _PLACEHOLDER.finditer(self.sql)}
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


def queries(*kinds: Kind, root: Traversable | None = None) -> list[Query]:
    """Return the queries of some kinds, or all, sorted by name. `root` replaces the shipped folder."""
    found = _shipped() if root is None else _read(root)
    return [query for query in found.values() if query.kind in (kinds or KINDS)]


def get(name: str, *, root: Traversable | None = None) -> Query:
    """Return the query of that name, whatever its kind. Raises `QueryNotFoundError`."""
    found = _shipped() if root is None else _read(root)
    if name in COMPUTED:
        raise QueryNotFoundError(
            f"{name} is a function over several queries, and no query.",
            hint=f"Call hotline_analysis.{name}, or ask `hotline query {name}`.",
        )
    if name not in found:
        close = difflib.get_close_matches(name, [*found, *COMPUTED], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`hotline queries` lists all of them."
        raise QueryNotFoundError(f"There is no query named {name!r}.", hint=hint)
    return found[name]


def macros(*, root: Traversable | None = None) -> Mapping[str, Macro]:
    """The macros that queries share, by name, each after those that it uses. `root` replaces the shipped folder."""
    return _shipped_macros() if root is None else _read_macros(root)


@functools.cache
def rules() -> Mapping[str, pa.Table]:
    """The rules that are data, a table for each file of `queries/rules`."""
    import io

    import polars as pl
    import pyarrow as pa
    import pyarrow.csv as pc

    types = {"weight": pa.int32(), "has_children": pa.bool_(), "roles": pa.string(), "is_float": pa.bool_()}
    convert = pc.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])
    tables = {}
    for file in resources.files("hotline_analysis.queries").joinpath("rules").iterdir():
        if file.name.endswith(".csv"):
            table = pc.read_csv(io.BytesIO(file.read_bytes()), convert_options=convert)
            table = table.select([column for column in table.column_names if column != "why"])
            position = pl.Series(range(1, table.num_rows + 1), dtype=pl.Int64).to_arrow()
            tables[file.name.removesuffix(".csv")] = table.append_column("position", position)
    return tables


@functools.cache
def compares_ranks(name: str) -> bool:
    """Whether a shipped query takes all ranks also if it is about one: those of whose collectives are known."""
    shipped = _shipped()
    views = [table for table in shipped[name].tables if table in shipped and shipped[table].kind == "views"]
    return "collective_match" in views or any(map(compares_ranks, views))


def parsed(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Parse a statement made of shipped SQL. On a small trace that takes as long as to run it, so it is done once.

    Any connection does, and there always is one: without, duckdb would start a database only for this.
    """
    if statement not in _PARSED:
        _PARSED[statement] = connection.extract_statements(statement)[0]
    return _PARSED[statement]


_PARSED: dict[str, duckdb.Statement] = {}


@functools.cache
def _shipped() -> dict[str, Query]:
    return _read(resources.files("hotline_analysis.queries"))


def _read(root: Traversable) -> dict[str, Query]:
    found: dict[str, Query] = {}
    for kind in KINDS:
        if root.joinpath(kind).is_dir():
            for query in _of_folder(root.joinpath(kind), kind, kind):
                for each in (query, *query.steps):
                    if each.name in found:
                        raise ValueError(f"{each.file}: there is {found[each.name].file} of this name, too")
                    found[each.name] = each
    steps = {step.name for query in found.values() for step in query.steps}
    return {name: query for name, query in sorted(found.items()) if name not in steps}


@functools.cache
def _shipped_macros() -> Mapping[str, Macro]:
    return _read_macros(resources.files("hotline_analysis.queries"))


def _read_macros(root: Traversable) -> Mapping[str, Macro]:
    found: dict[str, Macro] = {}
    for file in sorted(root.joinpath("macros").iterdir(), key=lambda file: file.name):
        subject, dot, ending = file.name.partition(".")
        for macro in _macros_of(subject, file.read_text(encoding="utf-8")) if dot + ending == ".sql" else ():
            if macro.name in found:
                raise ValueError(f"macros/{file.name}: there is another macro {macro.name}")
            found[macro.name] = macro
    uses = {
        name: sorted((found.keys() & set(re.findall(r"\w+", _COMMENT.sub("", macro.sql)))) - {name})
        for name, macro in found.items()
    }
    ordered: dict[str, Macro] = {}
    for name in TopologicalSorter(uses).static_order():
        of_these = [used for direct in uses[name] for used in (*ordered[direct].uses, direct)]
        ordered[name] = replace(found[name], uses=tuple(dict.fromkeys(of_these)))
    return ordered


def _macros_of(subject: str, text: str) -> Iterator[Macro]:
    where = f"macros/{subject}.sql"
    intro, *rest = re.split(r"(?<=\n)\n+(?=--[^\n]*\n(?:--[^\n]*\n)*create )", text)
    if not rest or not all(line.startswith("--") for line in intro.splitlines()):
        raise ValueError(f"{where}: a comment on the subject goes first, and one on each macro before it")
    for part in rest:
        match = _MACRO.fullmatch(part)
        if match is None or ";" in _COMMENT.sub("", match["sql"])[:-1]:
            raise ValueError(
                f"{where}: expected one `create or replace macro NAME(PARAM, PARAM) as …;` in {part[:80]!r}"
            )
        yield Macro(
            name=match["name"],
            params=tuple(re.findall(_NAME, match["params"])),
            subject=subject,
            description="\n".join(text for _, text in _comment_lines(match["comment"])),
            sql=match["sql"],
            is_table=match["table"] is not None,
            uses=(),
        )


def _of_folder(folder: Traversable, path: str, kind: Kind) -> Iterator[Query]:
    """The queries of a folder and of those in it. A folder with a file of its own name is a query with its steps."""
    for entry in folder.iterdir():
        name = entry.name.removesuffix(".sql")
        if name != entry.name:
            yield _parse(name, kind, path, entry.read_text(encoding="utf-8"))
        elif entry.is_dir() and entry.joinpath(f"{name}.sql").is_file():
            yield _with_steps(entry, name, kind, path)
        elif entry.is_dir():
            yield from _of_folder(entry, f"{path}/{name}", kind)


def _with_steps(folder: Traversable, name: str, kind: Kind, path: str) -> Query:
    texts = {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    steps = {
        each: _parse(each, kind, f"{path}/{name}", text, is_step=True) for each, text in texts.items() if each != name
    }
    taken = {param for step in steps.values() for param in step.takes}
    query = _parse(name, kind, path, texts[name], taken=taken)
    where = f"{path}/{name}"
    known = {param.name for param in query.params}
    for step in steps.values():
        if odd := set(step.takes) - known:
            raise ValueError(f"{where}/{step.name}.sql: {name} has no parameter {', '.join(sorted(odd))}")
    if idle := set(steps) - {each for step in (*steps.values(), query) for each in step.reads}:
        raise ValueError(f"{where}: nothing reads {', '.join(sorted(idle))}")
    order = TopologicalSorter({each: sorted(set(step.reads) & set(steps)) for each, step in sorted(steps.items())})
    try:
        return replace(query, steps=tuple(steps[each] for each in order.static_order()))
    except CycleError as error:
        raise ValueError(f"{where}: steps read each other: {', '.join(error.args[1])}") from None


def _parse(
    name: str, kind: Kind, folder: str, sql: str, *, is_step: bool = False, taken: Collection[str] = ()
) -> Query:
    where = f"{folder}/{name}.sql"
    if not re.fullmatch(_NAME, name):
        raise ValueError(f"{where}: a query's name is lower case letters, digits and _")
    prose, directives = _split_header(where, sql)
    paragraphs = [" ".join(paragraph.split()) for paragraph in "\n".join(prose).split("\n\n") if paragraph.strip()]
    if not paragraphs:
        raise ValueError(f"{where}: the header must begin with a sentence that says what the query answers")

    params: list[Param] = []
    columns: list[Column] = []
    reads: tuple[str, ...] | None = None
    takes: tuple[str, ...] = ()
    writes = name if kind == "annotate" and not is_step else None
    only_with: list[tuple[str, ...]] = []
    is_rule = kind == "advice" and not is_step
    texts = {"what": "", "do": "", "scenario": ""} if is_rule else {}
    if is_rule:
        params, columns = list(RULE_PARAMS), list(RULE_COLUMNS)
    for line, word, text in directives:
        place = f"{where}:{line}"
        if texts.get(word) == "":
            texts[word] = text
        elif word == "param" and not is_rule and not is_step:
            params.append(_param(place, text))
        elif word == "column" and not is_rule:
            columns.append(_column(place, text))
        elif word in ("reads", "takes") and (is_step or word == "reads"):
            _match(_NAMES, text, place, f":{word} NAME, NAME")
            names = tuple(re.findall(_NAME, text))
            if (reads if word == "reads" else takes or None) is not None:
                raise ValueError(f"{place}: :{word} stands here twice")
            reads, takes = (names, takes) if word == "reads" else (reads, names)
        elif word == "only_with" and (is_step or kind in ("annotate", "advice")):
            only_with.append(_sources(place, text))
        elif word == "writes" and writes is not None:
            writes = _match(re.compile(_NAME), text, place, ":writes NAME")[0]
        else:
            raise ValueError(f"{place}: :{word} cannot stand here in a query of {kind}")

    if reads is None:
        raise ValueError(f"{where}: the header has no :reads")
    if not columns:
        raise ValueError(f"{where}: the header has no :column")
    if missing := [word for word, text in texts.items() if not text and word != "scenario"]:
        raise ValueError(f"{where}: the header has no :{missing[0]}")
    for what, declared_names in (
        ("parameter", [param.name for param in params]),
        ("column", [column.name for column in columns]),
    ):
        if len(set(declared_names)) < len(declared_names):
            raise ValueError(f"{where}: a {what} is declared twice")
    if odd := {source.split()[0] for sources in only_with for source in sources} - set(reads):
        raise ValueError(f"{where}: :only_with names {', '.join(sorted(odd))}, which it does not read")
    used = {match["name"] for match in _PLACEHOLDER.finditer(sql) if match["name"]}
    declared = {param.name for param in params} | set(takes)
    if odd := (used - declared) | (declared - used - set(taken)):
        raise ValueError(f"{where}: declared or used, but not both: {', '.join(f'${name}' for name in sorted(odd))}")
    return Query(
        name=name,
        kind=kind,
        folder=folder,
        summary=paragraphs[0],
        description="\n\n".join(paragraphs[1:]),
        params=tuple(params),
        reads=reads,
        writes=writes,
        columns=tuple(columns),
        sql=sql,
        takes=takes,
        what=texts.get("what", ""),
        do=texts.get("do", ""),
        scenario=texts.get("scenario", ""),
        only_with=tuple(only_with),
    )


def _split_header(where: str, sql: str) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Return the lines of prose, and (line number, word, text) of each directive with its continuation lines joined."""
    prose: list[str] = []
    directives: list[tuple[int, str, str]] = []
    for number, text in _comment_lines(sql):
        if match := re.fullmatch(r":(\w+)\s*(.*)", text):
            directives.append((number, match[1], match[2]))
        elif not directives:
            prose.append(text)
        elif text.startswith(" "):
            line, word, begun = directives[-1]
            directives[-1] = (line, word, f"{begun} {text.strip()}")
        elif text:
            raise ValueError(f"{where}:{number}: prose goes before the directives; indent what continues one")
    return prose, directives


def _comment_lines(sql: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(sql.splitlines(), start=1):
        if not line.startswith("--"):
            return
        yield number, line.removeprefix("--").removeprefix(" ").rstrip()


def _param(place: str, text: str) -> Param:
    form = f":param NAME {'|'.join(PARAM_TYPES)} [in (WORD, WORD) or >= NUMBER [<= NUMBER]] [= DEFAULT]  description"
    match = _match(_PARAM, text, place, form)
    type_: ParamType = next((known for known in PARAM_TYPES if known == match["type"]), "VARCHAR")
    literal = match["default"]
    words = WORDS.get(match["type"]) or tuple(re.findall(_NAME, match["words"] or ""))
    least, most = (None if match[limit] is None else int(match[limit]) for limit in ("least", "most"))
    if (words and type_ != "VARCHAR") or (least is not None and type_ not in ("BIGINT", "DOUBLE")):
        raise ValueError(f"{place}: `in` is for VARCHAR, and `>=` for numbers")
    param = Param(
        match["name"], type_, literal is None, None, match["description"], words, least, most, bool(match["or_null"])
    )
    if literal in (None, "NULL"):
        return param
    try:
        return replace(param, default=param.convert(_unquoted(literal, type_)))
    except ValueError as error:
        raise ValueError(f"{place}: the default {literal} is not {error}") from None


def _column(place: str, text: str) -> Column:
    match = _match(_COLUMN, text, place, ":column NAME TYPE  description")
    words = WORDS.get(match["type"])
    if words is None:
        return Column(match["name"], match["type"], match["description"])
    return Column(match["name"], "VARCHAR", f"{match['description']} ({one_of(words)})")


def _sources(place: str, text: str) -> tuple[str, ...]:
    match = _match(_ONLY_WITH, text, place, ":only_with TABLE [or TABLE], or TABLE where CONDITION")
    return (text,) if match["where"] else tuple(text.split(" or "))


def _match(pattern: re.Pattern[str], text: str, place: str, form: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{place}: expected {form}")
    return match


def _unquoted(literal: str, type_: ParamType) -> str:
    if (type_ == "VARCHAR") != literal.startswith("'"):
        raise ValueError(_IN_WORDS[type_])
    return literal[1:-1].replace("''", "'") if type_ == "VARCHAR" else literal


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
