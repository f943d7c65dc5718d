import os
from datetime import datetime
from impala.dbapi import connect

conn = connect(host=os.environ["IMPALA"], port=21050)
cur = conn.cursor()

day = os.environ["BUSINESS_DATE"]

cur.execute("INVALIDATE METADATA landing.trades")
cur.execute("REFRESH landing.trades")
cur.execute("""
    INSERT OVERWRITE TABLE core.trades PARTITION (business_date)
    SELECT trade_id, isin, qty, price, business_date
    FROM landing.trades
    WHERE business_date = '{}'
""".format(day))
cur.execute("COMPUTE STATS core.trades")
print("done at " + datetime.now().strftime("%Y%m%d %H%M%S"))
cur.close()
conn.close()
