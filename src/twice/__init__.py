"""Idempotent Spark pipelines: run them twice, get the result once.

Everything public is here. Importing it loads neither Spark nor a database library: what needs one is loaded when its
name is first used.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from twice import errors
from twice.api.declare import DeclaredTask, sql_task, task
from twice.core import audit
from twice.core.audit import Audit, AuditKind, AuditResult, Severity
from twice.core.backfill.plan import BackfillRequest, BatchSize, SliceStatus, StatusChoice
from twice.core.backfill.result import BackfillResult, BackfillState, BatchState, Comparison, SliceReport
from twice.core.effect import (
    Again,
    Effect,
    EffectBody,
    EffectKind,
    EffectText,
    Probe,
    PublishedSlice,
    call,
    email,
    slack,
    webhook,
)
from twice.core.failure.transience import ErrorMatch
from twice.core.file_input import FileFormat, Files, Missing
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record import AttemptRecord, AttemptState, InputRecord, RunRecord, SliceRecord
from twice.core.param import Param, ParamKind, param
from twice.core.ports import Leaf, Suspicion
from twice.core.results.proof import Cause, Difference, Proof, ProofRecord, RowPair, SideEffect, Trial, TrialResult
from twice.core.results.recover import Recovered, RecoverResult
from twice.core.results.run import EffectEnd, Outcome, RetryResult, RunAllResult, RunResult, SliceResult, StaleSlice
from twice.core.results.status import History, Status, TaskStatus
from twice.core.retry import Retry
from twice.core.scope import Daily, Every, Hourly, Monthly, Scope, Whole, days, hours
from twice.core.since import Since
from twice.core.table.token import Intention, Kind
from twice.core.task import Empty, Input, Policy, Read, Rerun, Strategy, TableName, Task, read
from twice.core.version import __version__ as __version__
from twice.core.write import Changes, NullKeys
from twice.engine.frames.keys import stable_row_hash, surrogate_key
from twice.errors import EffectRefused, TwiceError
from twice.identical import assert_identical
from twice.queues.item import Item, ItemStatus
from twice.strategies.append_once import append_once
from twice.strategies.insert_new import insert_new
from twice.strategies.merge import MergeOrder, merge
from twice.strategies.replace import replace

if TYPE_CHECKING:
    from twice.api.prove import prove, prove_job
    from twice.api.verbs import (
        backfill,
        history,
        plan,
        recover,
        restate,
        retry,
        run,
        run_all,
        session,
        status,
    )
    from twice.queues.handling import Handler
    from twice.queues.inbox import Inbox
    from twice.queues.work_queue import Worked, WorkQueue
    from twice.runtime.run.explain import Explanation

__all__ = [
    "Again",
    "AttemptRecord",
    "AttemptState",
    "Audit",
    "AuditKind",
    "AuditResult",
    "BackfillRequest",
    "BackfillResult",
    "BackfillState",
    "BatchSize",
    "BatchState",
    "Cause",
    "Changes",
    "Comparison",
    "Daily",
    "DeclaredTask",
    "Difference",
    "Effect",
    "EffectBody",
    "EffectEnd",
    "EffectKind",
    "EffectRefused",
    "EffectState",
    "EffectText",
    "Empty",
    "ErrorMatch",
    "Every",
    "Explanation",
    "FileFormat",
    "Files",
    "Handler",
    "History",
    "Hourly",
    "Inbox",
    "Input",
    "InputRecord",
    "Intention",
    "Item",
    "ItemStatus",
    "Kind",
    "Leaf",
    "MergeOrder",
    "Missing",
    "Monthly",
    "NullKeys",
    "Outcome",
    "Param",
    "ParamKind",
    "Policy",
    "Probe",
    "Proof",
    "ProofRecord",
    "PublishedSlice",
    "Read",
    "RecoverResult",
    "Recovered",
    "Rerun",
    "Retry",
    "RetryResult",
    "RowPair",
    "RunAllResult",
    "RunRecord",
    "RunResult",
    "Scope",
    "Severity",
    "SideEffect",
    "Since",
    "SliceRecord",
    "SliceReport",
    "SliceResult",
    "SliceStatus",
    "StaleSlice",
    "Status",
    "StatusChoice",
    "Strategy",
    "Suspicion",
    "TableName",
    "Task",
    "TaskStatus",
    "Trial",
    "TrialResult",
    "TwiceError",
    "Whole",
    "WorkQueue",
    "Worked",
    "append_once",
    "assert_identical",
    "audit",
    "backfill",
    "call",
    "days",
    "email",
    "errors",
    "history",
    "hours",
    "insert_new",
    "merge",
    "param",
    "plan",
    "prove",
    "prove_job",
    "read",
    "recover",
    "replace",
    "restate",
    "retry",
    "run",
    "run_all",
    "session",
    "slack",
    "sql_task",
    "stable_row_hash",
    "status",
    "surrogate_key",
    "task",
    "webhook",
]

_VERBS = "twice.api.verbs"
_LOADED_LATE = {
    **dict.fromkeys(("backfill", "history", "plan", "recover"), _VERBS),
    **dict.fromkeys(("restate", "retry", "run", "run_all", "session", "status"), _VERBS),
    **dict.fromkeys(("prove", "prove_job"), "twice.api.prove"),
    "Explanation": "twice.runtime.run.explain",
    "Handler": "twice.queues.handling",
    "Inbox": "twice.queues.inbox",
    "WorkQueue": "twice.queues.work_queue",
    "Worked": "twice.queues.work_queue",
}
"""Names whose modules need a database library, which a pipeline file does not."""

_RENAMED = {"Result": "PublishedSlice"}


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATE:
        found = getattr(import_module(_LOADED_LATE[name]), name)
        globals()[name] = found
        return found
    if name in _RENAMED:
        warnings.warn(f"twice.{name} is now twice.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module 'twice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
