import json
import pathlib
from datetime import datetime

import requests
import psycopg2

STATE = pathlib.Path("state.json")


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"last_run": "2020-01-01"}
    resp = requests.get("https://api.example.com/events", params={"since": state["last_run"]}, timeout=30)
    conn = psycopg2.connect("dbname=events")
    cur = conn.cursor()
    for e in resp.json():
        cur.execute("INSERT INTO events (kind, payload) VALUES (%s, %s)", (e["kind"], json.dumps(e)))
    conn.commit()
    state["last_run"] = datetime.now().isoformat()
    STATE.write_text(json.dumps(state))


main()
