import glob
import os

import pandas as pd
import psycopg2

from sql_queries import songplay_table_insert, user_table_insert


def process_log_file(cur, filepath):
    df = pd.read_json(filepath, lines=True)
    df = df[df["page"] == "NextSong"]
    for _, row in df[["userId", "firstName", "lastName", "level"]].iterrows():
        cur.execute(user_table_insert, list(row))
    for _, row in df.iterrows():
        cur.execute(
            songplay_table_insert, (pd.to_datetime(row.ts, unit="ms"), row.userId, row.level, None, row.sessionId)
        )


def process_data(cur, conn, filepath, func):
    all_files = []
    for root, _dirs, _files in os.walk(filepath):
        all_files += glob.glob(os.path.join(root, "*.json"))
    for i, datafile in enumerate(all_files, 1):
        func(cur, datafile)
        conn.commit()
        print(f"{i}/{len(all_files)} files processed.")


def main():
    conn = psycopg2.connect("host=127.0.0.1 dbname=sparkifydb user=student password=student")
    cur = conn.cursor()
    process_data(cur, conn, filepath="data/log_data", func=process_log_file)
    conn.close()


if __name__ == "__main__":
    main()
