import json
import time

import requests

OUT = "data/listings.jsonl"


def scrape(page):
    r = requests.get("https://listings.example.com/search", params={"page": page}, timeout=20)
    return r.json()["items"]


def main():
    for page in range(1, 40):
        items = scrape(page)
        with open(OUT, "a") as f:
            for item in items:
                item["id"] = hash(item["url"])
                f.write(json.dumps(item) + "\n")
        time.sleep(1)


main()
