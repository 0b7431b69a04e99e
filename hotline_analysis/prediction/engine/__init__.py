"""The engine of predictions: a loop of recorded steps, edits of the loop, and its replay."""
