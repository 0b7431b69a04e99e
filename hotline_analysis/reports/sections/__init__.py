"""The sections of a report, by topic."""
