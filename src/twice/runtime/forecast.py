"""plan: what a run would do, and why. It reads; it writes nothing, not even to the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.ports import Leaf, Suspicion
from twice.core.slice import Slice
from twice.core.task import Task
from twice.runtime.compute import compute
from twice.runtime.decide import SliceState, decide
from twice.runtime.plan import make_plan
from twice.runtime.settle import remembered
from twice.runtime.workshop import Workshop


@dataclass(frozen=True)
class Forecast:
    """`suspicions` would stop the run; `leaves` is what it would read."""

    task: str
    target: str
    write: str
    label: str
    generation: int
    version: int | None
    compute: bool
    why: str
    leaves: tuple[Leaf, ...]
    suspicions: tuple[Suspicion, ...]


def forecast(shop: Workshop, task: Task, slice_: Slice) -> Forecast:
    plan = make_plan(shop.project.id, task, (slice_,))
    session = shop.engine.fresh()
    target = shop.target_of(task.target, session)
    published = target.published(task.target, plan.app_ids)
    generation = published.generations[plan.app_ids[0]]
    held = remembered(shop, task, target, plan.app_ids[0], slice_.label, generation)
    computed = compute(shop, task, plan, session)
    decision = decide("run", task.policy.rerun, [SliceState(slice_.label, generation, held, computed.intention)])
    return Forecast(
        task.name,
        str(task.target),
        task.write.name,
        slice_.label,
        generation,
        published.version,
        decision.compute,
        decision.why,
        computed.leaves,
        tuple(s for s in computed.suspicions if s.name not in task.policy.allow),
    )
