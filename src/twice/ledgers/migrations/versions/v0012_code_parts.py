"""What the code of a publish was made of, part by part: it shows later which part changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "twice_code_parts",
        sa.Column("task", _NAME, nullable=False),
        sa.Column("code_hash", sa.Text, nullable=False),
        sa.Column("parts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task", "code_hash", name="twice_code_parts_pk"),
        sa.CheckConstraint("task <> '' AND code_hash <> ''", name="twice_code_parts_named"),
    )
