"""Pure: the standard library and `twice.errors` only. Types, scopes, slices, write verbs, ports, failpoints."""
