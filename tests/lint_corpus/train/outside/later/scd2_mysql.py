import mysql.connector
from datetime import date


class CustomerDimension:
    def __init__(self, cfg):
        self.cnx = mysql.connector.connect(**cfg)

    def process(self, rows):
        cursor = self.cnx.cursor(dictionary=True)
        today = date.today()
        for row in rows:
            cursor.execute("SELECT * FROM dim_customer WHERE customer_id = %s AND current_flag = 1", (row["id"],))
            known = cursor.fetchone()
            if known and known["address"] == row["address"]:
                continue
            if known:
                cursor.execute("UPDATE dim_customer SET current_flag = 0, valid_to = %s WHERE sk = %s", (today, known["sk"]))
            cursor.execute(
                "INSERT INTO dim_customer (customer_id, address, valid_from, valid_to, current_flag) VALUES (%s, %s, %s, '9999-12-31', 1)",
                (row["id"], row["address"], today),
            )
        self.cnx.commit()
