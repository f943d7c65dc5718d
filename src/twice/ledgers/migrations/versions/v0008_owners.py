"""Whose records they are: what a task's key stands for, and the task a backfill was asked for.

No row is changed. The keys of records from before are plain names of tasks; they are assigned once a table shows whose
they are, which no migration can ask.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "twice_tasks",
        sa.Column("key", _NAME, nullable=False),
        sa.Column("project", _NAME, nullable=False),
        sa.Column("environment", _NAME, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("target", _NAME, nullable=False),
        sa.Column("assigned", sa.BigInteger),
        sa.PrimaryKeyConstraint("key", name="twice_tasks_pk"),
        sa.UniqueConstraint("project", "environment", "name", "target", name="twice_tasks_named"),
    )
    op.add_column("twice_backfills", sa.Column("task", _NAME))
