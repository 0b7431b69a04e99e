"""Training loops whose truth is known, as trace files, and an oracle in plain Python for the answers about them.

    python -m tests.campaign.loops --loops 500 --pairs 200 --seed 1 --jobs 2
    python -m tests.campaign.loops --loop 1000017         # one of them again

`plan` draws a loop, `record` writes the loop as a trace file and keeps the truth, `oracle` computes the right answers
from the truth without the project's code, and `compared` asks the project and lists each disagreement.
"""
