"""Options of `hotline query NAME`, generated from the answer's header, and shell completion of names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from hotline_analysis.catalog import Param, Query

_ASKED = "hotline_analysis.asked"  # the answer named on the command line
_GIVEN = "hotline_analysis.given"  # the answer's arguments given as options
_METAVARS = {"BIGINT": "INTEGER", "DOUBLE": "NUMBER", "VARCHAR": "TEXT", "BOOLEAN": ""}


def answer_named(name: str) -> Query:
    """Return the description of an answer or query. Raises `QueryNotFoundError`."""
    from hotline_analysis import catalog

    if name not in catalog.COMPUTED:  # reading these loads the database, too slow for shell completion
        return catalog.get(name)
    from hotline_analysis.answers.named import COMPUTED

    return COMPUTED[name].as_query()


def complete_answers(incomplete: str) -> list[tuple[str, str]]:
    """Return the answers with this prefix and their summaries."""
    from hotline_analysis import catalog

    known = {query.name: query.summary for query in catalog.queries("answers")} | dict.fromkeys(catalog.COMPUTED, "")
    return [(name, known[name]) for name in sorted(known) if name.startswith(incomplete)]


def complete_tables(incomplete: str) -> list[tuple[str, str]]:
    """Return the tables with this prefix and the meaning of a row."""
    from hotline_analysis.schema import TABLES

    return [(table.name, table.doc) for table in TABLES.values() if table.name.startswith(incomplete)]


def given_options(context: typer.Context) -> tuple[dict[str, object], int | None]:
    """Return the answer's parameters given as options, and the row limit if `limit` is not such a parameter."""
    found: dict[str, Any] = dict(context.meta.get(_GIVEN, {}))
    asked: Query | None = context.meta.get(_ASKED)
    takes_limit = asked is None or any(param.name == "limit" for param in asked.params)
    return found, None if takes_limit else found.pop("limit", None)


class AnswerCommand(TyperCommand):
    """A command whose first word names an answer. The answer's parameters become additional options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Find the answer first, because it defines the options."""
        ctx.meta[_ASKED] = self._asked(args, is_typed=not ctx.resilient_parsing)
        return super().parse_args(ctx, args)

    def _asked(self, args: Sequence[str], *, is_typed: bool) -> Query | None:
        from hotline_analysis import catalog

        valued = {word for param in self.params if not getattr(param, "is_flag", False) for word in param.opts}
        words = [
            word
            for word, before in zip(args, ["", *args], strict=False)
            if not word.startswith("-") and before not in valued
        ]
        known = {*catalog.COMPUTED, *(query.name for query in catalog.queries())}
        # A word before the name may be the value of an option known only to the answer.
        name = next((word for word in words if word in known), words[0] if words and is_typed else None)
        return None if name is None else answer_named(name)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the answer's options followed by the common options."""
        asked = ctx.meta.get(_ASKED)
        return [*(_options(asked) if asked is not None else ()), *super().get_params(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description of the answer, if an answer was named."""
        asked = ctx.meta.get(_ASKED)
        if asked is None:
            super().format_help_text(ctx, formatter)
            return
        said = f"{asked.summary}\n\n{asked.description}".strip()
        formatter.write_paragraph()
        with formatter.indentation():
            for line in f"{said}\n\n`hotline queries {asked.name}` describes its columns.".splitlines():
                formatter.write_text(line) if line else formatter.write_paragraph()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the answer's options above the common options."""
        asked = ctx.meta.get(_ASKED)
        if asked is None:
            super().format_options(ctx, formatter)
            return
        own = {param.name for param in _params(asked)}
        told = [(param, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        sections = {
            "Arguments": [record for param, record in told if param.param_type_name == "argument"],
            f"Options of {asked.name}": [record for param, record in told if param.name in own],
            "Options": [
                record for param, record in told if param.param_type_name == "option" and param.name not in own
            ],
        }
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl([record for record in records if record is not None])


def _params(asked: Query) -> list[Param]:
    """Return the parameters of an answer. If `limit` is missing, add a `limit` that cuts the rows."""
    from hotline_analysis.catalog import Param

    if any(param.name == "limit" for param in asked.params):
        return list(asked.params)
    return [*asked.params, Param("limit", "BIGINT", False, None, "maximum number of rows", least=0)]


def _options(asked: Query) -> list[Any]:
    """Return the answer's options, created by typer from a function signature."""

    def takes_them() -> None: ...

    signature = [
        inspect.Parameter(param.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(param))
        for param in _params(asked)
    ]
    takes_them.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    takes_them.__annotations__ = {each.name: each.annotation for each in signature}
    made = typer.Typer(add_completion=False)
    made.command()(takes_them)
    return list(typer.main.get_command(made).params)


def _option(param: Param) -> Any:
    spelled = param.name.replace("_", "-")
    is_flag = param.type == "BOOLEAN"
    notes = [f"{param.allowed}{', or null' if param.or_null else ''}"] if param.allowed and not param.words else []
    if param.required:
        notes.append("required")
    elif param.default is not None and not is_flag:
        notes.append(f"default: {param.default}")
    said = param.description + (f"  [{'; '.join(notes)}]" if notes else "")
    option = typer.Option(
        f"--{spelled}/--no-{spelled}" if is_flag else f"--{spelled}",
        metavar=None if is_flag else "|".join(param.words) or _METAVARS[param.type],
        help=said,
        show_default=False,
        callback=_keep(param),
        expose_value=False,
        autocompletion=_complete_words(param) if param.words else None,
    )
    return Annotated[bool | None, option] if is_flag else Annotated[str | None, option]


def _keep(param: Param) -> Callable[[typer.Context, Any], None]:
    """Check the value of an option, and store it for the command."""

    def keep(context: typer.Context, value: Any) -> None:
        if value is None:
            return
        try:
            converted = param.convert(value)
        except ValueError as error:
            raise typer.BadParameter(f"must be {error}, not {value!r}.") from None
        context.meta.setdefault(_GIVEN, {})[param.name] = converted

    keep.__annotations__ = {"context": typer.Context, "value": Any}  # typer finds the context by its type
    return keep


def _complete_words(param: Param) -> Callable[[str], list[str]]:
    def words(incomplete: str) -> list[str]:
        return [word for word in param.words if word.startswith(incomplete)]

    words.__annotations__ = {"incomplete": str}
    return words
