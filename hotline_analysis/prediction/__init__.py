"""What would help, and by how much: a loop is changed and replayed."""
