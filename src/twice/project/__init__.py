"""What a caller does with an opened project: functions that take it, for the command line, the API and pytest alike."""
