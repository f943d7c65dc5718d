from snowflake.snowpark import Session
from snowflake.snowpark import functions as F


def main(session: Session) -> str:
    state = session.table("ETL.STATE").filter(F.col("JOB") == "clicks").collect()
    last = state[0]["LAST_TS"] if state else "2000-01-01"

    src = session.table("RAW.CLICKS").filter(F.col("TS") > F.lit(last))
    src = src.with_column("ROW_ID", F.call_builtin("UUID_STRING"))
    src.write.mode("append").save_as_table("MART.CLICKS")
    session.sql("UPDATE ETL.STATE SET LAST_TS = CURRENT_TIMESTAMP() WHERE JOB = 'clicks'").collect()
    return "done"
