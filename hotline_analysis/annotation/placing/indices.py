"""The positions that placing works with, each with a name, so that a signature says what an integer counts.

All of them are plain integers, or arrays of 64-bit integers, when the code runs. A type checker tells the scalars
apart; the names of arrays are for the reader, as NumPy's types do not know what an array's numbers count.

    RowIndex      a position in the arrays of a `Rows`
    ChosenIndex   a position among rows that were chosen from a `Rows`, which are in turn given as `RowIndices`
    ItemIndex     a position in the arrays of `Items`: an op of the whole trace
    ColumnIndex   a position among the ops that are compared right now, such as a window: an array of `ItemIndices`, or
                  of their names
    ModuleId      the number of a module in the model's list

-1 stands for none. What is no position has a name, too: `Symbols` are the numbers by which the table of weights knows
what rows look for, and `NameCodes` those of the names of ops, its other side.
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
