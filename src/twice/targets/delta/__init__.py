"""Delta tables: written, audited and published without a copy."""
