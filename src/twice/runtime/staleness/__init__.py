"""Is a published slice still right? Decided for one slice, for many, and down the graph."""
