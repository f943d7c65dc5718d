"""Idempotent Spark pipelines: run them twice, get the result once.

Everything public is here. Importing it loads no engine: pyspark comes in with the first session.
"""

from typing import TYPE_CHECKING, Any

from twice.api import backfill, prove, session, sql_task, task
from twice.core import audit
from twice.core.backfill_result import BackfillResult
from twice.core.effect import Result, call, email, slack, webhook
from twice.core.retry import Retry
from twice.core.run import Outcome, RunResult
from twice.core.scope import Daily, Every, Hourly, Monthly, Whole, days, hours
from twice.core.since import Since
from twice.core.task import Policy, read
from twice.engine.frames.keys import stable_row_hash, surrogate_key
from twice.errors import EffectRefused, TwiceError
from twice.identical import assert_identical
from twice.strategies.append_once import append_once
from twice.strategies.insert_new import insert_new
from twice.strategies.merge import merge
from twice.strategies.replace import replace

if TYPE_CHECKING:
    from twice.queues.inbox import Inbox
    from twice.queues.work_queue import WorkQueue

__version__ = "0.1.0"

__all__ = [
    "BackfillResult",
    "Daily",
    "EffectRefused",
    "Every",
    "Hourly",
    "Inbox",
    "Monthly",
    "Outcome",
    "Policy",
    "Result",
    "Retry",
    "RunResult",
    "Since",
    "TwiceError",
    "Whole",
    "WorkQueue",
    "append_once",
    "assert_identical",
    "audit",
    "backfill",
    "call",
    "days",
    "email",
    "hours",
    "insert_new",
    "merge",
    "prove",
    "read",
    "replace",
    "session",
    "slack",
    "sql_task",
    "stable_row_hash",
    "surrogate_key",
    "task",
    "webhook",
]


def __getattr__(name: str) -> Any:
    """A queue or an inbox needs a database library; a pipeline that has none need not load it."""
    if name == "WorkQueue":
        from twice.queues.work_queue import WorkQueue

        return WorkQueue
    if name == "Inbox":
        from twice.queues.inbox import Inbox

        return Inbox
    raise AttributeError(f"module 'twice' has no attribute {name!r}")
