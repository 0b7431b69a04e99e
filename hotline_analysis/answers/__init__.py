"""Answers to questions about a trace: those that are one query each, and those with logic of their own."""
