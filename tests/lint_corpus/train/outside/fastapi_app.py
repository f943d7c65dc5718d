import uuid
from datetime import datetime

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy.orm import Session

from .db import get_session
from .models import Comment

app = FastAPI()


class NewComment(BaseModel):
    text: str


@app.post("/comments")
def add_comment(body: NewComment, session: Session = Depends(get_session)):
    comment = Comment(id=str(uuid.uuid4()), text=body.text, created_at=datetime.utcnow())
    session.add(comment)
    session.commit()
    return {"id": comment.id}


@app.get("/comments/today")
def todays(session: Session = Depends(get_session)):
    return session.query(Comment).filter(Comment.created_at >= datetime.utcnow().date()).all()
