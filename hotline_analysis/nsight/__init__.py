"""Read the SQLite export of Nsight Systems into the same Arrow tables as a Kineto file."""
