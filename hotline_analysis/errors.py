"""Errors and warnings of this package, with one class per case that a caller may want to handle.

    Exception
    └── HotlineError                 any intentional error of this package
        ├── TraceFormatError         the file is not a profiler trace, or no part of it can be read
        ├── EmptyTraceError          a readable trace without a single event to analyse
        ├── RunFormatError           the folder is not a run directory, or has a different version
        ├── QueryNotFoundError       no query of that name exists
        ├── QueryParameterError      a query argument is unknown, missing or of the wrong type
        ├── ModelMismatchError       the model description does not fit the trace
        ├── MachineError             memory, disk or a process of this machine failed; a retry may work
        └── ExportExistsError        the export would overwrite an existing file or folder
    UserWarning
    └── HotlineWarning               the result is valid, but part of the input was lost or guessed

Any other exception is a bug in this package or its caller.
"""


class HotlineError(Exception):
    """A message of one sentence, and in `hint` the remedy, if known."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} Hint: {self.hint}"


class TraceFormatError(HotlineError):
    """The file is not a profiler trace, or no part of it can be read."""


class EmptyTraceError(HotlineError):
    """The trace is readable but has no event to analyse."""


class RunFormatError(HotlineError):
    """The folder is not a run directory, is damaged, or was written by an incompatible version."""


class QueryNotFoundError(HotlineError):
    """No query of that name exists."""


class QueryParameterError(HotlineError):
    """A query argument is unknown, missing or of the wrong type."""


class ModelMismatchError(HotlineError):
    """The model description does not fit the trace."""


class MachineError(HotlineError):
    """Memory, disk or a process failed. The file itself may be fine."""


class ExportExistsError(HotlineError):
    """The export would overwrite an existing file or folder."""


class HotlineWarning(UserWarning):
    """The result is valid, but part of the input was lost or guessed."""
