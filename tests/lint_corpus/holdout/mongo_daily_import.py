"""usage: mongo_daily_import.py [YYYY-MM-DD]"""
import datetime as dt
import sys

import requests
from pymongo import MongoClient

db = MongoClient().energy


def fetch(day=dt.date.today()):
    r = requests.get(f"https://grid.example.net/prices/{day:%Y-%m-%d}", timeout=30)
    r.raise_for_status()
    return r.json()


def main():
    day = dt.date.fromisoformat(sys.argv[1]) if len(sys.argv) > 1 else dt.date.today()
    docs = fetch(day)
    db.prices.insert_many(docs)
    db.stats.update_one({"_id": "prices"}, {"$inc": {"imports": 1, "rows": len(docs)}})
    print(f"{len(docs)} prices for {day}")


if __name__ == "__main__":
    main()
