"""Which slices an attempt is the last of: whoever deletes it must know that none is left, and read every run for it."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("twice_runs_by_last_fence", "twice_runs", ["last_fence"])
