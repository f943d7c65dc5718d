"""The verbs: run, settle, recover, collect garbage. Targets, ledger and engine come in from outside."""
