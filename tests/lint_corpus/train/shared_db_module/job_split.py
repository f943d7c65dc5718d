from db import execute

DELETE_DAY = "DELETE FROM mart.visits WHERE day = %s"
INSERT_DAY = """
    INSERT INTO mart.visits (day, shop, n)
    SELECT day, shop, count(*) FROM core.visits WHERE day = %s GROUP BY day, shop
"""


def run(day):
    execute(DELETE_DAY, (day,))
    execute(INSERT_DAY, (day,))
