import os

import snowflake.connector

conn = snowflake.connector.connect(
    user=os.environ["SF_USER"],
    password=os.environ["SF_PASSWORD"],
    account=os.environ["SF_ACCOUNT"],
    warehouse="LOAD_WH",
    database="RAW",
)

STEPS = [
    "ALTER SESSION SET TIMEZONE = 'UTC'",
    """
    COPY INTO raw.public.events
    FROM @raw.public.events_stage
    FILE_FORMAT = (TYPE = JSON)
    FORCE = TRUE
    """,
]


def run_steps():
    cs = conn.cursor()
    try:
        for step in STEPS:
            cs.execute(step)
    finally:
        cs.close()


def refresh_daily():
    cs = conn.cursor()
    cs.execute("DELETE FROM mart.public.events_daily WHERE day = CURRENT_DATE()")
    cs.execute(
        """INSERT INTO mart.public.events_daily
           SELECT DATE(ts), type, COUNT(*) FROM raw.public.events WHERE DATE(ts) = CURRENT_DATE() GROUP BY 1, 2"""
    )
    cs.close()


if __name__ == "__main__":
    run_steps()
    refresh_daily()
