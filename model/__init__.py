"""What must be true of a table, as pure functions: no bytes, no files, nothing shared with the implementation."""
