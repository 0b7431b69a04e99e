"""Texts: formatted numbers and names, hidden secrets, and lines of source code."""
