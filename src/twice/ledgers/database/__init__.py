"""The database behind a ledger: connections, tables, migrations, and what its errors mean."""
