"""Texts: numbers and names as people read them, what hides in them, and the lines of code that they name."""
