"""Database errors of a failed query → errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import polars as pl

from hotline_analysis.errors import HotlineError, RunFormatError


@contextmanager
def damage_told() -> Iterator[None]:
    """Convert database errors that mean a damaged file. Damage before the footer only shows when the rows are read."""
    try:
        yield
    except duckdb.Error as error:
        # Errors of the Parquet reader have no class of their own, or name the file.
        of_file = isinstance(error, duckdb.IOException | duckdb.InvalidInputException) and "data.parquet" in str(error)
        if type(error) is duckdb.Error or of_file:
            message = str(error).partition("\n")[0]
            raise RunFormatError(f"the run is damaged: {message}", hint="Import the traces again.") from error
        raise


@contextmanager
def as_hotline_error() -> Iterator[None]:
    """Convert any error in the block to a `HotlineError` with a hint."""
    try:
        with damage_told():
            yield
    except duckdb.ConnectionException as error:
        raise HotlineError("the trace is closed", hint="Load the trace again.") from error
    except (duckdb.InternalException, duckdb.FatalException) as error:
        message = str(error).partition("\n")[0]  # a stack trace may follow
        hint = "Load the trace again. This is a defect of DuckDB; please report the statement."
        raise HotlineError(f"the database failed: {message}", hint=hint) from error
    except duckdb.OutOfMemoryException as error:
        raise HotlineError(
            "the query needs more memory than allowed, and more than a quarter of the free disk space",
            hint="Ask about one step or rank. If somebody else made the run, import the traces yourself.",
        ) from error
    except duckdb.InterruptException as error:
        raise HotlineError("the query took too long and was stopped", hint="Ask about one step or rank.") from error
    except duckdb.Error as error:
        raise HotlineError(f"the SQL statement failed: {error}", hint="`hotline schema` lists the tables.") from error
    except pl.exceptions.PolarsError as error:
        raise HotlineError(
            "the result has a column of a type without a frame equivalent",
            hint="Cast the column, as in `select x::varchar`.",
        ) from error
