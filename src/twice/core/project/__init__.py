"""The tasks of a project, and which reads from which."""
