from datetime import datetime, timezone
from typing import Optional

import httpx
from sqlmodel import Field, Session, SQLModel, create_engine, select

engine = create_engine("sqlite:///issues.db")


class Issue(SQLModel, table=True):
    id: int = Field(primary_key=True)
    title: str
    state: str
    synced_at: Optional[datetime] = None


def sync(repo: str):
    page = 1
    with Session(engine) as session:
        while items := httpx.get(f"https://api.example.com/repos/{repo}/issues", params={"page": page}).json():
            for item in items:
                session.merge(Issue(id=item["id"], title=item["title"], state=item["state"], synced_at=datetime.now(timezone.utc)))
            page += 1
        session.commit()
