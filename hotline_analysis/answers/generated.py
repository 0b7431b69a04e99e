"""The answers that are one query each, as functions with the query's parameters.

A function is made from the header of its query on first use. `generated.pyi` has the signatures for editors and type
checkers.
"""

from hotline_analysis import catalog
from hotline_analysis.answers.single import function_of


def __getattr__(name: str) -> object:
    queries = {query.name: query for query in catalog.queries("answers")}
    if name not in queries:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = function = function_of(queries[name])
    return function


def __dir__() -> list[str]:
    return [query.name for query in catalog.queries("answers")]
