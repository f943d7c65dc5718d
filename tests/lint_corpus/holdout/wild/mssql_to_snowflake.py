import os
import urllib
import logging
import pandas as pd
from datetime import datetime
from sqlalchemy import create_engine, text
from snowflake.connector.pandas_tools import write_pandas, pd_writer
import snowflake.connector

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)

params = urllib.parse.quote_plus(f"DRIVER={{ODBC}};SERVER={os.getenv('SRV')};DATABASE={os.getenv('DB')}")
source = create_engine(f"mssql+pyodbc:///?odbc_connect={params}")
sf = snowflake.connector.connect(account=os.getenv("SF"), user="etl", password=os.getenv("SFP"), database="STAGE")

TABLES = ["Orders", "Customers"]


def last_load(table):
    cur = sf.cursor()
    cur.execute(f"SELECT MAX(LOADED_UNTIL) FROM CONTROL.LOADS WHERE TABLE_NAME = '{table}'")
    return cur.fetchone()[0] or datetime(1990, 1, 1)


def copy_table(table):
    since = last_load(table)
    now = datetime.now()
    df = pd.read_sql(text(f"SELECT * FROM dbo.{table} WHERE ModifiedDate > :since"), source, params={"since": since})
    if df.empty:
        logger.info("%s: nothing new", table)
        return
    df["ETL_LOAD_TS"] = now
    write_pandas(sf, df, table.upper(), auto_create_table=True)
    cur = sf.cursor()
    cur.execute(f"INSERT INTO CONTROL.LOADS (TABLE_NAME, LOADED_UNTIL) VALUES ('{table}', '{now}')")
    logger.info("%s: %d rows", table, len(df))


if __name__ == "__main__":
    for t in TABLES:
        try:
            copy_table(t)
        except Exception as exc:
            logger.error("failed %s: %s", t, exc)
