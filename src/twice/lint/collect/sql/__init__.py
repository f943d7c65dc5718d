"""SQL inside Python strings."""
