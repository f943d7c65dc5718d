"""PostgreSQL tables: staged by COPY, published with their tokens in one transaction; and read in parallel."""
