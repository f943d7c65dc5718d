"""What is asked at every run, however long the history is: open attempts and those with staged rows left by their task,
the newest effects in a state, the tasks of a backfill, whether an attempt's publish is the last of its slice, the
newest version of a table, and what one slice of a batch of hundreds has read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_IS_OPEN = sa.text("state IN ('claimed', 'staged', 'audited', 'publishing')")
_HAS_LEFTOVERS = sa.text("NOT discarded AND state IN ('failed', 'rejected', 'superseded', 'abandoned')")


def upgrade() -> None:
    of_task = (("twice_attempts_open_of_task", _IS_OPEN), ("twice_attempts_leftover_of_task", _HAS_LEFTOVERS))
    for name, where in of_task:
        op.create_index(name, "twice_attempts", ["task", "fence"], sqlite_where=where, postgresql_where=where)
    op.create_index("twice_effects_by_state", "twice_effects", ["state", "id", "task"])
    op.create_index("twice_batches_by_task", "twice_batches", ["backfill", "task"])
    op.create_index("twice_inputs_by_label", "twice_inputs", ["fence", "label"])
    op.create_index("twice_runs_by_attempt", "twice_runs", ["attempt"])
    op.create_index("twice_runs_by_version", "twice_runs", ["task", "version"])
