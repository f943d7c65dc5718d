"""The Python API, imported from `twice`: `declare` is for pipeline files, `verbs` does what the command line does."""
