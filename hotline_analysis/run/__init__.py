"""An open run: its files, its tables, and what can be asked of it."""
