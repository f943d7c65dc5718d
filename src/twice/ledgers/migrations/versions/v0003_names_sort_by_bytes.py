"""On PostgreSQL, tasks and labels compare by their bytes, whatever the database's own locale is.

Claims lock their slices in the order of their labels, sorted by Python; rows that are locked in the order of a locale
could wait in a ring. SQLite compares by bytes already.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NAMES = {
    "twice_attempts": ("task",),
    "twice_slices": ("task", "label"),
    "twice_leases": ("task", "label"),
    "twice_runs": ("task", "label"),
    "twice_inputs": ("label",),
}


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    for table, columns in _NAMES.items():
        changes = ", ".join(f'ALTER COLUMN {column} TYPE text COLLATE "C"' for column in columns)
        op.execute(f"ALTER TABLE {table} {changes}")
