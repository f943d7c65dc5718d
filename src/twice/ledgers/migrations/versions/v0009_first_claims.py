"""Which attempts a batch of a backfill may have made: those that began after it was first claimed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("twice_batches", sa.Column("after_fence", sa.BigInteger))
