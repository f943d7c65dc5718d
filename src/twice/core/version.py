"""This release. pyproject.toml has the same number; a test keeps them equal."""

__version__ = "0.1.0"
