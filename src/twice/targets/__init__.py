"""Table systems that carry out the write verbs. Importing this room loads no engine."""
