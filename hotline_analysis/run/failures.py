"""What the database says when a question fails → errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import polars as pl

from hotline_analysis.errors import HotlineError, RunFormatError


@contextmanager
def damage_told() -> Iterator[None]:
    """Damage behind the footer of a file is found when its rows are read."""
    try:
        yield
    except duckdb.Error as error:
        # What the reader of Parquet itself finds has no class of its own, or names the file.
        of_file = isinstance(error, duckdb.IOException | duckdb.InvalidInputException) and "data.parquet" in str(error)
        if type(error) is duckdb.Error or of_file:
            what = str(error).partition("\n")[0]
            raise RunFormatError(f"the run is damaged: {what}", hint="Import the traces again.") from error
        raise


@contextmanager
def as_hotline_error() -> Iterator[None]:
    """Whatever goes wrong in the block is a `HotlineError` that says what to do."""
    try:
        with damage_told():
            yield
    except duckdb.ConnectionException as error:
        raise HotlineError("the trace is closed", hint="Load it again.") from error
    except (duckdb.InternalException, duckdb.FatalException) as error:
        what = str(error).partition("\n")[0]  # a stack trace may follow
        hint = "Load the trace again. This is a defect of DuckDB; please report the statement."
        raise HotlineError(f"the database has failed: {what}", hint=hint) from error
    except duckdb.OutOfMemoryException as error:
        raise HotlineError(
            "the question takes more memory than one may, and more of the disk than a quarter of what is free",
            hint="Ask about one step or rank. If somebody else made the run, import the traces yourself.",
        ) from error
    except duckdb.InterruptException as error:
        raise HotlineError("the question took too long, and was stopped", hint="Ask about one step or rank.") from error
    except duckdb.Error as error:
        raise HotlineError(f"the SQL statement failed: {error}", hint="`hotline schema` lists the tables.") from error
    except pl.exceptions.PolarsError as error:
        raise HotlineError(
            "the result has a column of a type that no frame can hold", hint="Cast it, as in `select x::varchar`."
        ) from error
