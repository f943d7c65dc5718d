"""The ledger: an index of runs, attempts and leases that can be rebuilt from the targets. They are the truth."""
