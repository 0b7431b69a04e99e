"""A report as text, Markdown and HTML."""
