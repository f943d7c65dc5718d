"""The generation an attempt would publish (an incremental task's mark is not one more than before), and what a
keyed write did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("twice_slices", sa.Column("aim", sa.BigInteger))
    # Before this version every attempt aimed at the next generation.
    op.execute("UPDATE twice_slices SET aim = expected + 1 WHERE expected IS NOT NULL")
    op.add_column("twice_attempts", sa.Column("changes", sa.Text))
