"""effects: what was sent, what waits, and a person's decision on what is in doubt. No Spark is started for them."""

from __future__ import annotations

import getpass
import shlex
import socket
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.hints import runnable
from twice.cli.history_text import moment
from twice.cli.options import HERE, Format, Output, Where, boundary, print_json
from twice.cli.records import Limit
from twice.cli.terminal import say, say_table
from twice.core.closed import assert_never
from twice.core.ledger.outbox import EffectState
from twice.core.names.reference import hide_passwords
from twice.core.results.run import EffectEnd
from twice.core.results.summary import counted
from twice.core.table.mark import version_text
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.core.ledger.outbox import EffectEvent, EffectRecord
    from twice.runtime.effects.send import Resolution


S = EffectState
OfTask = Annotated[str | None, typer.Option("--task", help="Only this task's.")]
OfEnvironment = Annotated[
    str | None, typer.Option("--environment", help="Of another environment of this project, on this ledger.")
]
Id = Annotated[int, typer.Argument(metavar="ID", help="An effect's number, from twice effects list.")]
Patience = Annotated[float, typer.Option("--wait", help="Seconds to keep retrying what is refused for now.", min=0)]


@boundary
def list_(
    in_doubt: Annotated[bool, typer.Option("--in-doubt", help="Only those that may have arrived.")] = False,
    task: OfTask = None,
    limit: Limit = 50,
    environment: OfEnvironment = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show what was sent and what waits, newest first."""
    from twice.project import effects

    states = (S.IN_DOUBT, S.UNKNOWN) if in_doubt else ()
    with where.open() as opened:
        found = effects.effects(opened, states, task, limit, environment)
        counts = effects.counts(opened, task, environment)
    by_state = {state.value: counts[state] for state in S if state in counts}
    if output is Format.json:
        print_json({"effects": [_as_data(effect) for effect in found], "counts": by_state})
        return 0
    if found:
        say_table(("id", "effect", "state", "tries", "changed", "why"), [_row(effect) for effect in found], cuts=(1,))
    say(", ".join(f"{count} {state}" for state, count in by_state.items()) or "no effects yet")
    waiting = [effect for effect in found if effect.state.waits_for_a_person]
    if waiting:
        say(runnable(f"next: twice effects show {waiting[0].id}{_there(environment)}"))
    return 0


@boundary
def show(id_: Id, environment: OfEnvironment = None, output: Output = Format.text, where: Where = HERE) -> int:
    """Show one effect: its text, and every step it took."""
    from twice.project import effects

    with where.open() as opened:
        effect, events = effects.effect(opened, id_, environment)
    if output is Format.json:
        print_json({"effect": _as_data(effect), "events": [_event_data(event) for event in events]})
        return 0
    say(f"{effect.id}  {effect.where}: {effect.state.value}" + (f" ({effect.why})" if effect.why else ""))
    say(f"  {effect.kind}, {version_text(effect.generation)}, key {effect.key}")
    if effect.receipt:
        say(f"  receipt: {effect.receipt}")
    if effect.message is not None:
        say(f"  to {hide_passwords(', '.join(effect.message.to))}")
        for line in effect.message.body.splitlines():
            say(f"    {line}")
    for event in events:
        say(f"  {moment(event.at)}  {event.state.value}  by {event.who}" + (f": {event.why}" if event.why else ""))
    if effect.state.waits_for_a_person or effect.state is S.UNKNOWN:
        choice = "--sent|--resend|--abandon" if environment is None else "--sent|--abandon"
        say(runnable(f'next: twice effects resolve {id_}{_there(environment)} {choice} --reason "…"'))
    return 0


@boundary
def send(
    task: OfTask = None,
    wait: Patience = 0,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Send what waits. Exit 1 if something is in doubt or dead."""
    from twice.project import effects

    with where.open() as opened:
        tries = effects.send(opened, task, timedelta(seconds=wait))
        counts = effects.counts(opened, task)
    waiting = sum(counts.get(state, 0) for state in S if state.waits_for_a_person)
    if output is Format.json:
        print_json({"tries": tries, "counts": {state.value: count for state, count in counts.items()}})
    else:
        say(
            f"{counted(tries, 'try', 'tries')}; "
            + (", ".join(f"{counts[state]} {state.value}" for state in S if state in counts))
        )
        if waiting:
            say(runnable("next: twice effects list --in-doubt"))
    return 1 if waiting else 0


@boundary
def resolve(
    id_: Id,
    sent: Annotated[bool, typer.Option("--sent", help="It arrived.")] = False,
    resend: Annotated[bool, typer.Option("--resend", help="It did not arrive, or may arrive twice.")] = False,
    abandon: Annotated[bool, typer.Option("--abandon", help="It must not be sent.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="The reason; it is recorded.")] = "",
    sender_is_gone: Annotated[
        bool, typer.Option("--sender-is-gone", help="The process that was sending it is known to be gone.")
    ] = False,
    environment: OfEnvironment = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Decide what became of an effect. Who did, when and why is kept."""
    chosen: list[Resolution] = []
    chosen += ["sent"] if sent else []
    chosen += ["resend"] if resend else []
    chosen += ["abandon"] if abandon else []
    if len(chosen) != 1:
        raise UsageError("give one of --sent, --resend and --abandon", fix=f"See twice effects show {id_}.")
    from twice.project import effects
    from twice.runtime.effects.send import EffectDecision

    who = f"{getpass.getuser()}@{socket.gethostname()}"
    with where.open() as opened:
        decision = EffectDecision(chosen[0], who, reason, sender_is_gone)
        effect = effects.resolve(opened, id_, decision, environment)
    if output is Format.json:
        print_json({"effect": _as_data(effect)})
        return 0
    say(f"{effect.id}  {effect.where}: {effect.state.value} ({effect.why})")
    if chosen[0] == "resend":
        say(runnable("next: twice effects send"))
    return 0


def _there(environment: str | None) -> str:
    return "" if environment is None else f" --environment {shlex.quote(environment)}"


def _row(effect: EffectRecord) -> tuple[str, ...]:
    return (
        str(effect.id),
        effect.where,
        effect.state.value,
        str(effect.fence),
        moment(effect.changed),
        (effect.receipt if effect.state is S.SENT else effect.why) or "",
    )


def _as_data(effect: EffectRecord) -> dict[str, Any]:
    data = {**asdict(effect), "state": effect.state.value, "remembers": effect.remembers.total_seconds()}
    if effect.message is not None:
        data["message"]["to"] = [hide_passwords(place) for place in effect.message.to]
    return data


def _event_data(event: EffectEvent) -> dict[str, Any]:
    return {**asdict(event), "state": event.state.value}


def effect_text(effect: EffectEnd) -> str:
    """Whether it was sent, and what leads on from here."""
    why = f" ({effect.why})" if effect.why else ""
    send, show = runnable("; next: twice effects send"), runnable(f"; next: twice effects show {effect.id}")
    match effect.state:
        case EffectState.SENT:
            return f"{'already ' if effect.already else ''}sent{why}"
        case EffectState.RELEASED:
            return f"waiting, its text is not rendered yet{why}{send}"
        case EffectState.PENDING:
            return f"waiting, not sent yet{why}{send}"
        case EffectState.SENDING:
            return f"being sent, or its sender stopped reporting{why}{show}"
        case EffectState.IN_DOUBT:
            return f"IN DOUBT, it may have arrived{why}{show}"
        case EffectState.DEAD:
            return f"DEAD, it was not sent and is not retried{why}{show}"
        case EffectState.UNKNOWN:
            return f"UNKNOWN whether it was sent, so it is not sent again{why}{show}"
        case EffectState.ABANDONED:
            return f"abandoned, it is not sent any more{why}"
        case EffectState.PREPARED:
            return f"not sent: its publish has not landed{why}"
        case EffectState.CANCELLED:
            return f"cancelled, not sent{why}"
        case _:
            assert_never(effect.state)
