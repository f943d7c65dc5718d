"""Reading in parallel from one snapshot."""
