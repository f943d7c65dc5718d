import datetime
import pyodbc

CONN = "DRIVER={ODBC Driver 17 for SQL Server};SERVER=sql01;DATABASE=DW;Trusted_Connection=yes"


class StockFact:
    def __init__(self, conn_str=CONN):
        self.cnxn = pyodbc.connect(conn_str, autocommit=True)
        self.cursor = self.cnxn.cursor()
        self.cursor.fast_executemany = True

    def _batch_id(self):
        self.cursor.execute("SELECT ISNULL(MAX(batch_id), 0) + 1 FROM etl.batch")
        return self.cursor.fetchone()[0]

    def load(self, rows):
        batch = self._batch_id()
        self.cursor.execute("DELETE FROM dbo.FactStock WHERE DateKey = ?", rows[0][0])
        self.cursor.executemany(
            "INSERT INTO dbo.FactStock (DateKey, ProductKey, Qty, BatchId) VALUES (?, ?, ?, ?)",
            [(*r, batch) for r in rows],
        )
        self.cursor.execute(
            "INSERT INTO etl.batch (batch_id, finished) VALUES (?, ?)", batch, datetime.datetime.now()
        )

    def bump_counters(self, sku, sold):
        self.cursor.execute("UPDATE dbo.ProductTotals SET Sold = Sold + ? WHERE Sku = ?", sold, sku)
