"""A table system in this process's memory, for tests without a JVM."""
