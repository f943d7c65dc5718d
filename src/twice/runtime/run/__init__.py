"""One run, from claim to finish; and several of them in a row."""
