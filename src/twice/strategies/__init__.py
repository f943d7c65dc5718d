"""How a task writes. One file each, pure: slices and options in, a write verb out."""
