import pendulum
import requests
import psycopg2


def fetch():
    yesterday = pendulum.now("UTC").subtract(days=1).to_date_string()
    r = requests.get("https://api.shop.example/orders", params={"created_on": yesterday}, timeout=30)
    return r.json()


def save(orders):
    conn = psycopg2.connect("")
    with conn.cursor() as cur:
        for o in orders:
            cur.execute("insert into orders values (%s, %s) on conflict (id) do update set total = excluded.total", (o["id"], o["total"]))
    conn.commit()


save(fetch())
