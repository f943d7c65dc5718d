"""The outbox: effects and the steps of their lives."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")
_COUNTS = sa.text("state NOT IN ('prepared', 'cancelled')")


def upgrade() -> None:
    op.create_table(
        "twice_effects",
        sa.Column("id", _ID, autoincrement=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("task", _NAME, nullable=False),
        sa.Column("label", _NAME, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("occasion", sa.Text, nullable=False),
        sa.Column("attempt", sa.Text),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("keyed", sa.Boolean, nullable=False),
        sa.Column("remembers", sa.BigInteger, nullable=False),
        sa.Column("message", sa.Text),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("sender", sa.Text),
        sa.Column("until", _TIME),
        sa.Column("due", _TIME),
        sa.Column("doubt_since", _TIME),
        sa.Column("receipt", sa.Text),
        sa.Column("why", sa.Text),
        sa.Column("prepared", _TIME, nullable=False),
        sa.Column("changed", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="twice_effects_pk"),
        sa.UniqueConstraint("attempt", "label", "name", name="twice_effects_attempt"),
        sa.CheckConstraint("key <> '' AND task <> '' AND label <> '' AND name <> ''", name="twice_effects_named"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "twice_effect_events",
        sa.Column("id", _ID, autoincrement=True),
        sa.Column("effect", _ID, sa.ForeignKey("twice_effects.id", name="twice_effect_events_effect"), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="twice_effect_events_pk"),
    )
    op.create_index(
        "twice_effects_said",
        "twice_effects",
        ["task", "label", "name", "occasion"],
        unique=True,
        sqlite_where=_COUNTS,
        postgresql_where=_COUNTS,
    )
    op.create_index("twice_effects_due", "twice_effects", ["state", "due", "id"])
    op.create_index("twice_effect_events_of", "twice_effect_events", ["effect", "id"])
