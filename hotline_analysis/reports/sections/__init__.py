"""The parts of a report, each of one subject."""
