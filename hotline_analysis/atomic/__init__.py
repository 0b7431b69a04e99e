"""Files and folders that appear whole or not at all: names, cleanup of unfinished work, and replacing."""

from hotline_analysis.atomic.cleanup import (
    begin,
    begin_folder,
    begun,
    end,
    finish,
    remove,
    temporary_folder,
    undo_all,
)
from hotline_analysis.atomic.names import MANIFEST, Form, check_file, check_name, check_replaceable, form_of, path_of
from hotline_analysis.atomic.replacing import replace_file, replace_folder

__all__ = [
    "MANIFEST",
    "Form",
    "begin",
    "begin_folder",
    "begun",
    "check_file",
    "check_name",
    "check_replaceable",
    "end",
    "finish",
    "form_of",
    "path_of",
    "remove",
    "replace_file",
    "replace_folder",
    "temporary_folder",
    "undo_all",
]
