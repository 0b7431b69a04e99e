"""An open run: files, tables and queries."""
