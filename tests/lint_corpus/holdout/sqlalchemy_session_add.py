import csv
import uuid
from datetime import datetime

from sqlalchemy import Column, DateTime, Numeric, String, create_engine
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Payment(Base):
    __tablename__ = "payments"
    id = Column(String, primary_key=True, default=lambda: str(uuid.uuid4()))
    reference = Column(String)
    amount = Column(Numeric)
    value_date = Column(DateTime)


def import_payments(path, engine):
    with open(path, newline="") as handle:
        rows = list(csv.DictReader(handle))
    with Session(engine) as session:
        session.add_all(
            [Payment(reference=r["ref"], amount=r["amount"], value_date=datetime.fromisoformat(r["date"])) for r in rows]
        )
        session.commit()


if __name__ == "__main__":
    import_payments("payments.csv", create_engine("postgresql:///bank"))
