"""Names for the integer positions used in placing, so a signature shows what an integer counts.

At run time, all of them are plain integers, or arrays of 64-bit integers. A type checker distinguishes the scalars. The
names of arrays are only for the reader, because NumPy's types do not distinguish their contents.

    RowIndex      a position in the arrays of a `Rows`
    ChosenIndex   a position in a selection of rows, which is in turn given as `RowIndices`
    ItemIndex     a position in the arrays of `Items`: an op of the whole trace
    ColumnIndex   a position in the ops currently compared, such as a window: an array of `ItemIndices` or names
    ModuleId      the number of a module in the model's list

-1 means no position. Two names are not positions: `Symbols` are the row numbers of the table of weights, and
`NameCodes`, the numbers of op names, are its column numbers.
"""

from __future__ import annotations

from typing import NewType, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]

RowIndex = NewType("RowIndex", int)
ChosenIndex = NewType("ChosenIndex", int)
ItemIndex = NewType("ItemIndex", int)
ColumnIndex = NewType("ColumnIndex", int)
ModuleId = NewType("ModuleId", int)

RowIndices: TypeAlias = Integers
ChosenIndices: TypeAlias = Integers
ItemIndices: TypeAlias = Integers
ColumnIndices: TypeAlias = Integers
ModuleIds: TypeAlias = Integers

Symbols: TypeAlias = Integers
NameCodes: TypeAlias = Integers
EventIds: TypeAlias = Integers
CallNumbers: TypeAlias = Integers
PassNumbers: TypeAlias = Integers
Times: TypeAlias = Integers
WalkScores: TypeAlias = Integers
WalkKeys: TypeAlias = Integers

FIRST_COLUMN = ColumnIndex(0)
