"""What a Delta table's log says, and the calls to Delta's own classes that read and write it."""
