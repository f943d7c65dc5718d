import sys
from pathlib import Path

import pandas as pd
from sqlalchemy import create_engine, text

UPSERT = text(
    """
    INSERT INTO invoices (invoice_no, customer, total, loaded_at)
    SELECT invoice_no, customer, total, now() FROM invoices_stage
    ON CONFLICT (invoice_no) DO UPDATE
        SET customer = EXCLUDED.customer, total = EXCLUDED.total, loaded_at = EXCLUDED.loaded_at
    """
)


def load(engine, path: Path) -> int:
    frame = pd.read_csv(path, dtype={"invoice_no": str})
    frame = frame.sort_values(["invoice_no", "line"]).drop_duplicates(subset=["invoice_no"], keep="last")
    with engine.begin() as conn:
        frame.to_sql("invoices_stage", conn, if_exists="replace", index=False)
        conn.execute(UPSERT)
    return len(frame)


if __name__ == "__main__":
    target = create_engine(sys.argv[1])
    for name in sys.argv[2:]:
        print(name, load(target, Path(name)))
