"""Another way to import `hotline_analysis.humane`."""

from hotline_analysis.humane import delta, duration, percent, safe, shares, shorten

__all__ = ["delta", "duration", "percent", "safe", "shares", "shorten"]
