"""When an attempt is tried again, and which slices wait for a person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")
_IS_QUARANTINED = sa.text("quarantined IS NOT NULL")


def upgrade() -> None:
    op.add_column("twice_attempts", sa.Column("retry_at", _TIME))
    op.add_column("twice_runs", sa.Column("quarantined", _TIME))
    op.create_index(
        "twice_runs_quarantined",
        "twice_runs",
        ["task", "label"],
        sqlite_where=_IS_QUARANTINED,
        postgresql_where=_IS_QUARANTINED,
    )
