"""Predictions of possible improvements: edit a loop of recorded steps and replay it."""
