"""Looks: when the tables of a task were last looked at, and which published slices were not right then."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")


def upgrade() -> None:
    op.create_table(
        "twice_looks",
        sa.Column("task", _NAME, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("code_hash", sa.Text, nullable=False),
        sa.Column("slices", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("task", name="twice_looks_pk"),
        sa.CheckConstraint("task <> '' AND code_hash <> ''", name="twice_looks_named"),
    )
    op.create_table(
        "twice_seen",
        sa.Column("task", _NAME, nullable=False),
        sa.Column("label", _NAME, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Text),
        sa.Column("last_attempt", sa.Text),
        sa.PrimaryKeyConstraint("task", "label", name="twice_seen_pk"),
        sa.CheckConstraint("label <> ''", name="twice_seen_named"),
        sqlite_with_rowid=False,
    )
