"""What is true of a table: its tokens looked up, its owner, others' changes, and what dead attempts left beside it."""
