import sys

import duckdb

con = duckdb.connect("warehouse.duckdb")

con.execute("CREATE SCHEMA IF NOT EXISTS mart")
con.execute("""
    CREATE OR REPLACE TABLE mart.trips AS
    SELECT vendor, pickup::date AS day, count(*) AS trips, sum(fare::decimal(12,2)) AS fare
    FROM read_parquet('raw/trips/*.parquet')
    GROUP BY ALL
    ORDER BY ALL
""")
con.execute("CREATE TEMP TABLE flagged AS SELECT * FROM mart.trips WHERE false")
for threshold in (10, 100):
    con.execute("INSERT INTO flagged SELECT * FROM mart.trips WHERE trips < ?", [threshold])
con.execute("COPY (SELECT DISTINCT * FROM flagged ORDER BY ALL) TO 'out/flagged.csv' (HEADER)")
print(con.execute("SELECT * FROM mart.trips LIMIT 5").df(), file=sys.stderr)
