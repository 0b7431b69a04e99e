"""Small training loops as people write them, each with one planted bottleneck, timed by a stopwatch and captured.

    python -m tests.loops [NAMES] -o FOLDER    runs them: each with the profiler, then once more without
    python -m tests.loops.score FOLDER         compares the reports with the stopwatch, and prints a table

`programs/` has the loops. Each runs on the CPU in seconds, and has `main(watch)`, which times its phases with the
stopwatch. The lines that a report should name end in `# planted`, and `PLANTED` has the names that it may use.
"""
