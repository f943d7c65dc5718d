import psycopg2


def nightly(conn_str, csv_path):
    conn = psycopg2.connect(conn_str)
    cur = conn.cursor()
    with open(csv_path) as f:
        cur.copy_expert("COPY sales_raw FROM STDIN CSV HEADER", f)
    conn.commit()
    conn.close()
