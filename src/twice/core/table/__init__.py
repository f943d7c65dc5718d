"""What a table holds beside its rows: tokens, an incremental task's mark, and by them its owner."""
