"""The file format: bytes of a Kineto/Chrome trace → Arrow tables. Knows nothing of what the events mean."""
