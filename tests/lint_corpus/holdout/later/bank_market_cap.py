import glob
import sqlite3
from datetime import datetime

import pandas as pd
import requests
from bs4 import BeautifulSoup

log_file = "code_log.txt"


def log_progress(message):
    now = datetime.now()
    with open(log_file, "a") as f:
        f.write(now.strftime("%Y-%h-%d-%H:%M:%S") + " : " + message + "\n")


def extract(url):
    page = requests.get(url).text
    rows = BeautifulSoup(page, "html.parser").find_all("tbody")[0].find_all("tr")
    out = []
    for row in rows:
        cols = row.find_all("td")
        if len(cols):
            out.append({"Name": cols[1].text.strip(), "MC_USD_Billion": float(cols[2].text)})
    return pd.DataFrame(out)


def transform(df, csv_path):
    rate = pd.read_csv(csv_path).set_index("Currency").to_dict()["Rate"]
    df["MC_EUR_Billion"] = [round(x * rate["EUR"], 2) for x in df["MC_USD_Billion"]]
    return df


def load_to_db(df, conn, table):
    df.to_sql(table, conn, if_exists="replace", index=False)


log_progress("start")
frame = transform(extract("https://web.archive.example/banks"), "exchange_rate.csv")
frame.to_csv("Largest_banks.csv")
connection = sqlite3.connect("Banks.db")
load_to_db(frame, connection, "Largest_banks")
print(pd.read_sql("SELECT AVG(MC_EUR_Billion) FROM Largest_banks", connection))
connection.close()
log_progress("end")
