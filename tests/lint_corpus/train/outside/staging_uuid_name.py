import uuid

import sqlalchemy as sa


def load(engine: sa.Engine, frame, day):
    staging = f"stage_{uuid.uuid4().hex}"
    trace = uuid.uuid4()
    print("trace", trace)
    with engine.begin() as conn:
        frame.to_sql(staging, conn, if_exists="replace", index=False)
        conn.execute(sa.text("DELETE FROM mart.orders WHERE day = :day"), {"day": day})
        conn.execute(sa.text(f"INSERT INTO mart.orders SELECT * FROM {staging}"))
        conn.execute(sa.text(f"DROP TABLE {staging}"))
