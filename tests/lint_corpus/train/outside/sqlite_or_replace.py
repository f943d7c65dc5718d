import sqlite3


def store(db, rows):
    con = sqlite3.connect(db)
    con.execute("CREATE TABLE IF NOT EXISTS price (sku TEXT, day TEXT, price REAL, PRIMARY KEY (sku, day))")
    with con:
        con.executemany("INSERT OR REPLACE INTO price (sku, day, price) VALUES (?, ?, ?)", rows)
    con.close()
