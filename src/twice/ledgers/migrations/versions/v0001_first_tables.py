"""Attempts, slices, leases, runs, inputs and audits.

A migration describes the schema of its day: it never imports `schema.py`, which moves on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_FENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime(timezone=True).with_variant(sa.Text, "sqlite")
_IS_OPEN = sa.text("state IN ('claimed', 'staged', 'audited', 'publishing')")
_HAS_LEFTOVERS = sa.text("NOT discarded AND state IN ('failed', 'rejected', 'superseded', 'abandoned')")


def upgrade() -> None:
    _create_attempts()
    _create_slices_and_leases()
    _create_runs()
    _create_inputs_and_audits()


def _create_attempts() -> None:
    op.create_table(
        "twice_attempts",
        sa.Column("fence", _FENCE, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("started", _TIME, nullable=False),
        sa.Column("finished", _TIME),
        sa.Column("why", sa.Text),
        sa.Column("version", sa.BigInteger),
        sa.Column("notes", sa.Text),
        sa.Column("seconds", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("discarded", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("fence", name="twice_attempts_pk"),
        sa.UniqueConstraint("id", name="twice_attempts_id"),
        sa.CheckConstraint("id <> '' AND task <> ''", name="twice_attempts_named"),
        sqlite_autoincrement=True,
    )
    op.create_index("twice_attempts_by_task", "twice_attempts", ["task", "fence"])
    op.create_index(
        "twice_attempts_open", "twice_attempts", ["fence"], sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN
    )
    op.create_index(
        "twice_attempts_leftover",
        "twice_attempts",
        ["fence"],
        sqlite_where=_HAS_LEFTOVERS,
        postgresql_where=_HAS_LEFTOVERS,
    )


def _create_slices_and_leases() -> None:
    op.create_table(
        "twice_slices",
        sa.Column("fence", _FENCE, _attempt("twice_slices_attempt")),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("expected", sa.BigInteger),
        sa.Column("code_hash", sa.Text),
        sa.Column("inputs_hash", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.Column("fingerprint", sa.Text),
        sa.PrimaryKeyConstraint("fence", "label", name="twice_slices_pk"),
        sa.CheckConstraint("label <> ''", name="twice_slices_named"),
        sqlite_with_rowid=False,
    )
    op.create_index("twice_slices_by_label", "twice_slices", ["task", "label", "fence"])
    op.create_table(
        "twice_leases",
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("fence", _FENCE, _attempt("twice_leases_attempt")),
        sa.Column("until", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("task", "label", name="twice_leases_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("twice_leases_by_fence", "twice_leases", ["fence"])


def _create_runs() -> None:
    op.create_table(
        "twice_runs",
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Text),
        sa.Column("code_hash", sa.Text),
        sa.Column("inputs_hash", sa.Text),
        sa.Column("rows", sa.BigInteger),
        sa.Column("fingerprint", sa.Text),
        sa.Column("version", sa.BigInteger),
        sa.Column("published", _TIME),
        sa.Column("last_fence", _FENCE, _attempt("twice_runs_last_attempt")),
        sa.PrimaryKeyConstraint("task", "label", name="twice_runs_pk"),
        sa.CheckConstraint("generation >= 0", name="twice_runs_generation"),
        sqlite_with_rowid=False,
    )


def _create_inputs_and_audits() -> None:
    op.create_table(
        "twice_inputs",
        sa.Column("fence", _FENCE, _attempt("twice_inputs_attempt")),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("identity", sa.Text),
        sa.Column("version", sa.BigInteger),
        sa.PrimaryKeyConstraint("fence", "position", name="twice_inputs_pk"),
    )
    op.create_table(
        "twice_audits",
        sa.Column("fence", _FENCE, _attempt("twice_audits_attempt")),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("fence", "position", name="twice_audits_pk"),
    )


def _attempt(name: str) -> sa.ForeignKey:
    return sa.ForeignKey("twice_attempts.fence", name=name)
