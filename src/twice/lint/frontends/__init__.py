"""One module per kind of file; `reader` picks the one that reads it."""
