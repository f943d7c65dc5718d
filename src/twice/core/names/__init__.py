"""How things of the outside are written: paths, references to secrets, names and types of Spark."""
