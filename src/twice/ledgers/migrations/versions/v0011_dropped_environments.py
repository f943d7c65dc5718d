"""Environments that a person dropped: who, when and why. It is all that stays of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")


def upgrade() -> None:
    op.create_table(
        "twice_dropped",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("project", _NAME, nullable=False),
        sa.Column("environment", _NAME, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="twice_dropped_pk"),
    )
