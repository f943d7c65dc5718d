"""What computes: Spark (embedded or the caller's own session), or plain rows in tests. Importing this package
loads no engine; `twice.engine.spark` does."""
