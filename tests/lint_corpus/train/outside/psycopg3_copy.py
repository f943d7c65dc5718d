import sys
import psycopg


def load(path, dsn="dbname=geo"):
    with psycopg.connect(dsn) as conn:
        with conn.cursor() as cur:
            cur.execute("TRUNCATE places_stage")
            with cur.copy("COPY places_stage (id, name, lat, lon) FROM STDIN WITH (FORMAT csv)") as copy:
                with open(path) as f:
                    for line in f:
                        copy.write(line)
            cur.execute(
                "INSERT INTO places SELECT * FROM places_stage "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name, lat = excluded.lat, lon = excluded.lon"
            )


if __name__ == "__main__":
    load(sys.argv[1])
