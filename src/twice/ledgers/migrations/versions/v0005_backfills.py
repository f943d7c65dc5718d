"""Backfills: frozen plans, their batches and slices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")


def upgrade() -> None:
    op.create_table(
        "twice_backfills",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created", _TIME, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="twice_backfills_pk"),
        sa.CheckConstraint("name <> ''", name="twice_backfills_named"),
    )
    op.create_table(
        "twice_batches",
        sa.Column("backfill", sa.Text, _backfill("twice_batches_backfill")),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("task", _NAME, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("until", _TIME),
        sa.Column("error", sa.Text),
        sa.Column("seconds", sa.Float),
        sa.PrimaryKeyConstraint("backfill", "number", name="twice_batches_pk"),
    )
    op.create_index("twice_batches_by_state", "twice_batches", ["backfill", "state", "position"])
    _create_planned_and_needs()


def _create_planned_and_needs() -> None:
    op.create_table(
        "twice_planned",
        sa.Column("backfill", sa.Text, _backfill("twice_planned_backfill")),
        sa.Column("task", _NAME, nullable=False),
        sa.Column("label", _NAME, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.Column("fingerprint", sa.Text),
        sa.Column("comparison", sa.Text),
        sa.PrimaryKeyConstraint("backfill", "task", "label", name="twice_planned_pk"),
        sa.CheckConstraint("label <> ''", name="twice_planned_named"),
    )
    op.create_index("twice_planned_by_batch", "twice_planned", ["backfill", "number"])
    op.create_table(
        "twice_needs",
        sa.Column("backfill", sa.Text, _backfill("twice_needs_backfill")),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("needed", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("backfill", "number", "needed", name="twice_needs_pk"),
    )
    op.create_index("twice_needs_by_needed", "twice_needs", ["backfill", "needed"])


def _backfill(name: str) -> sa.ForeignKey:
    return sa.ForeignKey("twice_backfills.name", name=name)
