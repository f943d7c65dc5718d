"""Is what the ledger remembers of a slice about this very table? Two tables may stand at the same generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twice.core.ledger.record import RunRecord
from twice.core.ports import Target
from twice.core.table.token import SliceToken, token_name
from twice.core.task import Task
from twice.runtime.context import RunContext

_ONE_BY_ONE = 100
"""So many commits are asked for, each where it is remembered (a millisecond); more, by one question about all."""


def made_by_others(
    context: RunContext, task: Task, target: Target, tokens: Sequence[SliceToken], known: Mapping[str, RunRecord]
) -> Mapping[str, str]:
    """By slice, the attempt that made the generation which the ledger remembers as another attempt's: the table is not
    the one that it was published to (warehouses were exchanged, a name was moved to another place). What was remembered
    is then about the other table. Reads only.

    Every commit that is remembered is asked, where the ledger says that it is: another table may be at the same
    version, a copy has the same id, and of some slices what is remembered may be about this table already. Only if
    another made one of them are the makers looked for. Where the log forgot the commit, or the ledger knows no attempt,
    the ledger is believed.
    """
    doubtful = [token for token in tokens if token.generation and _remembers(known.get(token.label), token)]
    if not _doubted(target, task, doubtful, known):
        return {}
    makers = _makers(context, task, target, doubtful)
    return {label: maker for label, maker in makers.items() if maker != known[label].attempt}


def _doubted(target: Target, task: Task, tokens: Sequence[SliceToken], known: Mapping[str, RunRecord]) -> bool:
    """Whether the makers of these are worth the one question about all of them."""
    commits = {(known[token.label].attempt, known[token.label].version): token for token in tokens}
    if len(commits) > _ONE_BY_ONE:
        return True
    for (attempt, version), token in commits.items():
        note = target.provenance(task.target, token.name, token.generation, at=version)
        if note is None:  # the whole log was searched for it: not for each of the others, too
            return len(commits) > 1
        if note.attempt != attempt:
            return True
    return False


def _remembers(run: RunRecord | None, token: SliceToken) -> bool:
    return run is not None and run.generation == token.generation and run.attempt is not None


def _makers(context: RunContext, task: Task, target: Target, tokens: Sequence[SliceToken]) -> dict[str, str]:
    """One question for all of them: each may have to be searched for in the whole log."""
    held = target.tokens(task.target, token_name(context.project.id, task.first_name, ""))
    return {
        token.label: found.note.attempt
        for token in tokens
        if (found := held.get(token.name)) is not None and found.note and found.generation == token.generation
    }
