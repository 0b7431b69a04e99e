"""The text of an SQL file → the query declared by its header, or its macros."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from hotline_analysis.catalog.query import (
    IN_WORDS,
    PARAM_TYPES,
    PLACEHOLDER,
    RULE_COLUMNS,
    RULE_PARAMS,
    Column,
    Kind,
    Macro,
    Param,
    ParamType,
    Query,
)
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import COLUMN_TYPES, WORDS

_NAME = r"[a-z][a-z0-9_]*"
_PARAM = re.compile(
    rf"(?P<name>{_NAME}) +(?P<type>{'|'.join((*PARAM_TYPES, *WORDS))})"
    rf"(?: +in +\((?P<words>{_NAME}(?:, *{_NAME})*)\)| *>= *(?P<least>\d+)(?: *<= *(?P<most>\d+))?)?"
    r"(?P<or_null> +or +NULL)?(?: *= *(?P<default>'(?:[^']|'')*'|[^\s']+))? +(?P<description>[^\s=].*)"
)
_COLUMN = re.compile(rf"(?P<name>{_NAME}) +(?P<type>[A-Z][A-Z0-9_]*(?:\(.*?\))?(?:\[\])*)(?: +(?P<description>\S.*))?")
_MACRO = re.compile(
    rf"(?P<comment>(?:--[^\n]*\n)+)(?P<sql>create or replace macro (?P<name>{_NAME})"
    rf"\((?P<params>(?:{_NAME}(?:, {_NAME})*)?)\) as(?P<table> table)?\s.*;)\n",
    re.DOTALL,
)
COMMENT = re.compile(r"--[^\n]*")
_NAMES = re.compile(rf"{_NAME}(?: *, *{_NAME})*")
_ONLY_WITH = re.compile(rf"(?P<names>{_NAME}(?: or {_NAME})*)|(?P<table>{_NAME}) where (?P<where>\S.*)")


def parse(name: str, kind: Kind, folder: str, sql: str, *, is_step: bool = False, taken: Collection[str] = ()) -> Query:
    """Parse the query of a file, or a step. `taken` are the parameters that the query's steps use.

    Raises ValueError for a header that breaks the rules.
    """
    where = f"{folder}/{name}.sql"
    if not re.fullmatch(_NAME, name):
        raise ValueError(f"{where}: a query's name must consist of lower case letters, digits and _")
    prose, directives = _split_header(where, sql)
    paragraphs = _paragraphs(prose)
    if not paragraphs:
        raise ValueError(f"{where}: the header must begin with a one-sentence summary")

    params: list[Param] = []
    columns: list[Column] = []
    reads: tuple[str, ...] | None = None
    takes: tuple[str, ...] = ()
    writes = name if kind == "annotate" and not is_step else None
    only_with: list[tuple[str, ...]] = []
    is_kept = False
    is_rule = kind == "advice" and not is_step
    texts = {"finding": "", "remedy": "", "scenario": ""} if is_rule else {}
    if is_rule:
        params, columns = list(RULE_PARAMS), list(RULE_COLUMNS)
    for line, word, text in directives:
        location = f"{where}:{line}"
        if texts.get(word) == "":
            texts[word] = text
        elif word == "param" and not is_rule and not is_step:
            params.append(_param(location, text))
        elif word == "column" and not is_rule:
            columns.append(_column(location, text))
        elif word in ("reads", "takes") and (is_step or word == "reads"):
            _match(_NAMES, text, location, f":{word} NAME, NAME")
            names = tuple(re.findall(_NAME, text))
            if (reads if word == "reads" else takes or None) is not None:
                raise ValueError(f"{location}: duplicate :{word}")
            reads, takes = (names, takes) if word == "reads" else (reads, names)
        elif word == "only_with" and (is_step or kind in ("annotate", "advice")):
            only_with.append(_sources(location, text))
        elif word == "kept" and kind == "views" and not is_step and not text:
            is_kept = True
        elif word == "writes" and writes is not None:
            writes = _match(re.compile(_NAME), text, location, ":writes NAME")[0]
        else:
            raise ValueError(f"{location}: :{word} is not allowed here in a query of {kind}")

    if reads is None:
        raise ValueError(f"{where}: the header has no :reads")
    if not columns:
        raise ValueError(f"{where}: the header has no :column")
    if missing := [word for word, text in texts.items() if not text and word != "scenario"]:
        raise ValueError(f"{where}: the header has no :{missing[0]}")
    for noun, declared_names in (
        ("parameter", [param.name for param in params]),
        ("column", [column.name for column in columns]),
    ):
        if len(set(declared_names)) < len(declared_names):
            raise ValueError(f"{where}: a {noun} is declared twice")
    if unmatched := {source.split()[0] for sources in only_with for source in sources} - set(reads):
        raise ValueError(f"{where}: :only_with names {', '.join(sorted(unmatched))}, missing in :reads")
    used = {match["name"] for match in PLACEHOLDER.finditer(sql) if match["name"]}
    declared = {param.name for param in params} | set(takes)
    if unmatched := (used - declared) | (declared - used - set(taken)):
        raise ValueError(
            f"{where}: declared or used, but not both: {', '.join(f'${name}' for name in sorted(unmatched))}"
        )
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
        what=texts.get("finding", ""),
        do=texts.get("remedy", ""),
        scenario=texts.get("scenario", ""),
        only_with=tuple(only_with),
        is_kept=is_kept,
    )


def _paragraphs(prose: Sequence[str]) -> list[str]:
    """The paragraphs of a header: sentences on one line, or a list with a line for each item, "- `word`: …"."""
    paragraphs: list[str] = []
    is_open, is_list = False, False
    for line in prose:
        item = re.fullmatch(r" {2,}(\w+) {2,}(\S.*)", line)
        if not line.strip():
            is_open = is_list = False
        elif item:
            list_item = f"- `{item[1]}`: {item[2]}"
            if is_list:
                paragraphs[-1] += f"\n{list_item}"
            else:
                paragraphs.append(list_item)
            is_open = is_list = True
        elif is_open and (not is_list or line.startswith("  ")):
            paragraphs[-1] += f" {line.strip()}"
        else:
            paragraphs.append(line.strip())
            is_open, is_list = True, False
    return ["\n".join(" ".join(line.split()) for line in words.splitlines()) for words in paragraphs]


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
            line, word, beginning = directives[-1]
            directives[-1] = (line, word, f"{beginning} {text.strip()}")
        elif text:
            raise ValueError(f"{where}:{number}: prose goes before the directives; indent continuation lines")
    return prose, directives


def _comment_lines(sql: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(sql.splitlines(), start=1):
        if not line.startswith("--"):
            return
        yield number, line.removeprefix("--").removeprefix(" ").rstrip()


def _param(place: str, text: str) -> Param:
    form = f":param NAME {'|'.join(PARAM_TYPES)} [in (WORD, WORD) or >= NUMBER [<= NUMBER]] [= DEFAULT]  description"
    match = _match(_PARAM, text, place, form)
    type_: ParamType = next((option for option in PARAM_TYPES if option == match["type"]), "VARCHAR")
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
    name, type_, description = match["name"], match["type"], match["description"] or ""
    column_name, database_type, sentence = COLUMN_TYPES.get(type_, ("", type_, ""))
    if name == column_name:
        # `NULL outside every step` is a second part, and `of the launch` continues the first one.
        separator = " " if re.match("[a-z]", description) else "; "
        description = f"{sentence}{separator}{description}" if description else sentence
    elif not description:
        raise ValueError(f"{place}: expected :column NAME TYPE  description")
    if words := WORDS.get(type_):
        return Column(name, "VARCHAR", f"{description} ({one_of(words)})")
    return Column(name, database_type, description)


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
        raise ValueError(IN_WORDS[type_])
    return literal[1:-1].replace("''", "'") if type_ == "VARCHAR" else literal


def macros_of(subject: str, text: str) -> Iterator[Macro]:
    """The macros of a file, without their dependencies. Raises ValueError for any other content."""
    where = f"macros/{subject}.sql"
    intro, *rest = re.split(r"(?<=\n)\n+(?=--[^\n]*\n(?:--[^\n]*\n)*create )", text)
    if not rest or not all(line.startswith("--") for line in intro.splitlines()):
        raise ValueError(f"{where}: the file needs a comment on the subject first, and a comment before each macro")
    for part in rest:
        match = _MACRO.fullmatch(part)
        if match is None or ";" in COMMENT.sub("", match["sql"])[:-1]:
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
