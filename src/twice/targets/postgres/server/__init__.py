"""One PostgreSQL server: connections, names, types, and what its errors mean."""
