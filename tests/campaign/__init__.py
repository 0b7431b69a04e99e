"""A campaign of random, structured damage: what odd and hostile trace files must not do.

    python -m tests.campaign --cases 2000 --seed 1 --jobs 2
    python -m tests.campaign --case 1000017            # one of them again

A case is one of eight traces (`bases`), changed by a few mutations of different classes (`mutations`), written as a
file, and asked everything (`asking`) in a process of its own with limits on time and memory (`children`). What is read
is compared with a reading of the same bytes in plain Python (`reading`). See docs/robustness.md.
"""
