from db import transaction

DELETE_DAY = "DELETE FROM mart.visits WHERE day = %s"
INSERT_DAY = """
    INSERT INTO mart.visits (day, shop, n)
    SELECT day, shop, count(*) FROM core.visits WHERE day = %s GROUP BY day, shop
"""


def run(day):
    with transaction() as cur:
        cur.execute(DELETE_DAY, (day,))
        cur.execute(INSERT_DAY, (day,))
