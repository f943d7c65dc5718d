from __future__ import annotations

from collections import Counter

import pytest

from twice.core.results.proof import Difference, Scenario, TrialResult
from twice.errors import UsageError
from twice.proof.effect_counts import compare_effects
from twice.proof.jobs.job import PLAYS as JOB_PLAYS
from twice.proof.play import NotApplicable, Observation, choose, trial
from twice.proof.tasks.scenarios import PLAYS as TASK_PLAYS

PLAYS = {
    name: (Scenario(name, "", default=name != "rare"), None) for name in ("twice", "rare", "crash")
}  # in the order they are played


def test_without_names_the_default_scenarios_are_chosen_and_named_ones_keep_the_order_of_play() -> None:
    assert choose(PLAYS, ()) == ["twice", "crash"]
    assert choose(PLAYS, ("crash", "rare")) == ["rare", "crash"]


def test_an_unknown_scenario_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="there is no scenario 'wrong' for a job.*Known: twice, rare, crash"):
        choose(PLAYS, ("wrong",), " for a job")


def test_a_play_becomes_a_trial_whatever_its_end() -> None:
    def not_for_this_task() -> Observation:
        raise NotApplicable("its work is not cut by time")

    found = Difference(("amount",), 1, 1)
    trials = [
        trial("twice", lambda: Observation("run again")),
        trial("crash", lambda: Observation("died", found)),
        trial("batch", not_for_this_task),
    ]
    assert [(each.result, each.reason, each.difference) for each in trials] == [
        (TrialResult.SAME, "run again", None),
        (TrialResult.CHANGED, "died", found),
        (TrialResult.NOT_APPLICABLE, "its work is not cut by time", None),
    ]


def test_tasks_and_jobs_know_their_scenarios_by_the_names_that_users_give() -> None:
    assert choose(TASK_PLAYS, ()) == ["twice", "crash", "double-fire", "parallelism", "row-order"]
    assert choose(JOB_PLAYS, ()) == ["twice", "others", "crash", "parallelism", "row-order"]


def test_every_effect_that_was_sent_more_or_less_often_is_named() -> None:
    found = compare_effects(Counter(mail=1, hook=2), Counter(mail=3, hook=1), "effect", "Give it a key.")
    assert found is not None
    assert (found.missing, found.added) == (1, 2)
    assert found.causes[0].why == (
        "hook was sent 1 times where one clean run sends it 2 times; "
        "mail was sent 3 times where one clean run sends it 1 times"
    )
