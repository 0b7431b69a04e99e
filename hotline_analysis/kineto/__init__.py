"""Decode the file format: bytes of a Kineto/Chrome trace to Arrow tables. Independent of the events' meaning."""
