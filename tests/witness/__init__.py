"""Whether a change of the structure leaves every frame as it was.

    python -m tests.witness write before             # every frame of every trace, from the state before
    python -m tests.witness write after              # the same, from the state after
    python -m tests.witness compare before after     # cell by cell; the exit status says whether all are equal

What a change renames on purpose stands in `renames.csv`, which the comparison reads: `kind` is query, column, argument
or value, `query` limits a row to one query and may be empty, `old` is the name before and `new` the name after.
"""
