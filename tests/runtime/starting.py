"""Backfills started as a project does, with the plan of a context that has an engine."""

from __future__ import annotations

from twice.core.backfill.plan import BackfillPlan, BackfillRequest
from twice.core.backfill.result import BackfillRecord
from twice.runtime.backfill import backfill
from twice.runtime.backfill.backfill import plan_backfill
from twice.runtime.context import RunContext


def start(
    context: RunContext, request: BackfillRequest, name: str | None = None
) -> tuple[BackfillRecord, BackfillPlan | None]:
    return backfill.start(context.ledger, request, lambda: plan_backfill(context, request, name), name)


def start_if_any(context: RunContext, request: BackfillRequest) -> tuple[BackfillRecord, BackfillPlan | None] | None:
    return backfill.start_if_any(context.ledger, request, lambda: plan_backfill(context, request))
