import psycopg2


def sync(src_dsn, dst_dsn):
    src, dst = psycopg2.connect(src_dsn), psycopg2.connect(dst_dsn)
    with dst, dst.cursor() as out:
        out.execute("SELECT high_mark FROM etl_state WHERE job = 'tickets' FOR UPDATE")
        (mark,) = out.fetchone()
        with src.cursor() as cur:
            cur.execute("SELECT id, state, updated_at FROM tickets WHERE updated_at >= %s ORDER BY updated_at, id", (mark,))
            rows = cur.fetchall()
        for row in rows:
            out.execute(
                "INSERT INTO tickets (id, state, updated_at) VALUES (%s, %s, %s) "
                "ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, updated_at = EXCLUDED.updated_at "
                "WHERE tickets.updated_at <= EXCLUDED.updated_at",
                row,
            )
        if rows:
            out.execute("UPDATE etl_state SET high_mark = %s WHERE job = 'tickets'", (rows[-1][2],))
