"""Facts from Python source: each module here looks for one kind of thing in a `ModuleContext`."""
