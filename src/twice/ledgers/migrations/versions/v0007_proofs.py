"""Proofs: which code of a task was proved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")


def upgrade() -> None:
    op.create_table(
        "twice_proofs",
        sa.Column("id", _ID, autoincrement=True),
        sa.Column("task", _NAME, nullable=False),
        sa.Column("label", _NAME, nullable=False),
        sa.Column("code_hash", sa.Text, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("holds", sa.Boolean, nullable=False),
        sa.Column("changed", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="twice_proofs_pk"),
        sa.CheckConstraint("task <> '' AND code_hash <> ''", name="twice_proofs_named"),
        sqlite_autoincrement=True,
    )
    op.create_index("twice_proofs_by_task", "twice_proofs", ["task", "id"])
