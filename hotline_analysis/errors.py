"""What can go wrong, one class per thing that a caller may want to handle.

    Exception
    └── HotlineError                 anything this package reports on purpose
        ├── TraceFormatError         the file is not a profiler trace, or no part of it can be read
        ├── EmptyTraceError          a readable trace without a single event to analyse
        ├── RunFormatError           the folder is not a run directory, or one of another version
        ├── QueryNotFoundError       no query of that name is shipped
        ├── QueryParameterError      a query argument is unknown, missing or of the wrong type
        ├── ModelMismatchError       the model description does not fit the trace
        ├── MachineError             memory, disk or a process of this machine failed: again, it may work
        └── ExportExistsError        the export would overwrite what is there

    UserWarning
    └── HotlineWarning               the result stands, but part of the input was lost or guessed

Any other exception is a bug in this package or its caller.
"""


class HotlineError(Exception):
    """One sentence of what is wrong, and in `hint`, where one is known, what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} Hint: {self.hint}"


class TraceFormatError(HotlineError):
    """The file is not a profiler trace, or no part of it can be read."""


class EmptyTraceError(HotlineError):
    """The trace is readable and has no event to analyse."""


class RunFormatError(HotlineError):
    """The folder is not a run directory, is damaged, or was written by an incompatible version."""


class QueryNotFoundError(HotlineError):
    """No query of that name is shipped."""


class QueryParameterError(HotlineError):
    """A query argument is unknown, missing or of the wrong type."""


class ModelMismatchError(HotlineError):
    """The model description does not fit the trace."""


class MachineError(HotlineError):
    """Memory, disk or a process failed, and nothing is known to be wrong with the file."""


class ExportExistsError(HotlineError):
    """The export would overwrite what is there."""


class HotlineWarning(UserWarning):
    """The result stands, but part of the input was lost or guessed."""
