"""Every interleaving of a few attempts, with one fault anywhere and leases that run out at any moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tests.proof.protocol.actor import Actor, Ended, NextStep, resume
from tests.proof.protocol.promises import Broken, check_converged, check_report, check_step
from tests.proof.protocol.system import GUARDS, LOST, Sent, System, answers, buried, landed, run_out

DEAD = Ended("dead")
MAY_LOSE_ITS_REPLY = ("send", "commit")
AFTERWARDS = Actor("next")

T = TypeVar("T", bound=Hashable)
State = tuple[int, ...]
"""The system's number, the number of where each attempt is, and how many faults may still come."""


class Numbers(Generic[T]):
    """Each thing once, with a number: a state is then a few integers, and quick to compare."""

    def __init__(self) -> None:
        self.things: list[T] = []
        self._numbers: dict[T, int] = {}

    def of(self, thing: T) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


@dataclass(frozen=True)
class Where:
    """An attempt at one moment: the replies it got, or how it ended."""

    actor: Actor
    replies: tuple[Any, ...] = ()
    end: Ended | None = None


@dataclass
class Search:
    """`faults` is how many times, in one history, a process may die or a reply be lost."""

    actors: tuple[Actor, ...]
    database: str
    guards: frozenset[str] = GUARDS
    faults: int = 1
    endings: set[tuple[str, ...]] = field(default_factory=set)
    _systems: Numbers[System] = field(default_factory=Numbers)
    _places: Numbers[Where] = field(default_factory=Numbers)
    _from: dict[State, tuple[State, str]] = field(default_factory=dict)
    _checked: set[tuple[int, int]] = field(default_factory=set)
    _ended: set[State] = field(default_factory=set)
    _asked: dict[int, NextStep] = field(default_factory=dict)
    _steps_of: dict[tuple[int, int], list[tuple[str, int, int, int]]] = field(default_factory=dict)

    @property
    def states(self) -> int:
        return len(self._from)

    def explore(self) -> Search:
        """Visit every state once; Broken where a promise does not hold."""
        first: State = (self._systems.of(System()), *(self._begun(actor) for actor in self.actors), self.faults)
        self._from = {first: (first, "")}
        stack = [first]
        while stack:
            state = stack.pop()
            if all(self._places.things[place].end for place in state[1:-1]):
                self._check_end(state)
            for step_name, reached in self._after(state):
                if reached not in self._from:
                    self._from[reached] = (state, step_name)
                    self._check(state, reached)
                    stack.append(reached)
        return self

    def _begun(self, actor: Actor) -> int:
        place = self._places.of(Where(actor))
        self._resume(place)
        return place

    def _after(self, state: State) -> Iterator[tuple[str, State]]:
        system_number, *places, faults = state
        system = self._systems.things[system_number]
        out = run_out(system)
        if out is not None:
            yield "the lease runs out", (self._systems.of(out), *places, faults)
        for zombie in system.zombies:
            left = replace(system, zombies=tuple(z for z in system.zombies if z is not zombie))
            after = self._systems.of(landed(left, zombie, self.guards) or left)
            yield f"{zombie.commit.attempt}'s orphan commits", (after, *places, faults)
        for at, place in enumerate(places):
            for step_name, after, there, cost in self._steps(system_number, place):
                if cost <= faults:
                    yield step_name, (after, *places[:at], there, *places[at + 1 :], faults - cost)

    def _steps(self, system_number: int, place: int) -> list[tuple[str, int, int, int]]:
        """What an attempt may do next: its name, the system after it, where the attempt is then, its cost in faults."""
        key = (system_number, place)
        if key not in self._steps_of:
            self._steps_of[key] = list(self._find_steps(system_number, place))
        return self._steps_of[key]

    def _find_steps(self, system_number: int, place: int) -> Iterator[tuple[str, int, int, int]]:
        where, system = self._places.things[place], self._systems.things[system_number]
        if where.end is not None:
            return
        actor, step = where.actor, self._asked[place].step
        step_name = f"{actor.id}: {step[0]}"
        gone = buried(system, actor.id)
        for answer, after in answers(system, actor.id, step, self.guards):
            yield step_name, self._systems.of(after), self._replied(where, answer), 0
            if step[0] in MAY_LOSE_ITS_REPLY:
                confused = self._replied(where, LOST)
                yield f"{step_name}, and its reply is lost", self._systems.of(after), confused, 1
                yield f"{step_name} is lost on its way", self._systems.of(gone), confused, 1
        dead = self._places.of(Where(actor, end=DEAD))
        yield f"{actor.id} dies before {step[0]}", self._systems.of(gone), dead, 1
        if isinstance(step[-1], Sent):
            orphaned = replace(gone, zombies=(*gone.zombies, step[-1]))
            yield f"{actor.id} dies, but its JVM has the commit in hand", self._systems.of(orphaned), dead, 1

    def _replied(self, where: Where, answer: Any) -> int:
        place = self._places.of(Where(where.actor, (*where.replies, answer)))
        end = self._resume(place)
        # What replies an ended attempt got makes no difference any more.
        return place if end is None else self._places.of(Where(where.actor, end=end))

    def _resume(self, place: int) -> Ended | None:
        where = self._places.things[place]
        if place not in self._asked:
            found = resume(where.actor, where.replies, self.database, self.guards)
            if isinstance(found, Ended):
                return found
            self._asked[place] = found
        return None

    def _check(self, before: State, after: State) -> None:
        pair = (before[0], after[0])
        if pair not in self._checked:
            self._checked.add(pair)
            self._with_path(after, check_step, self._systems.things[pair[0]], self._systems.things[pair[1]])

    def _check_end(self, state: State) -> None:
        if state[:-1] in self._ended:
            return
        self._ended.add(state[:-1])
        ends = [self._places.things[place] for place in state[1:-1]]
        self.endings.add(tuple(where.end.how for where in ends if where.end))
        for where in ends:
            if where.end not in (None, DEAD):
                self._with_path(state, check_report, where.actor, where.end, self._systems.things[state[0]])
        for code in ("v1", "v3"):
            self._check_next_run(state, replace(AFTERWARDS, code=code))

    def _check_next_run(self, state: State, actor: Actor) -> None:
        """The next run, alone and after every lease, puts everything right."""
        system = self._systems.things[state[0]]
        number, place = self._systems.of(run_out(system) or system), self._begun(actor)
        while self._places.things[place].end is None:
            before = number
            _, number, place, _ = self._steps(number, place)[0]
            self._with_path(state, check_step, self._systems.things[before], self._systems.things[number])
        end = self._places.things[place].end
        assert end is not None
        self._with_path(state, check_converged, actor, end, self._systems.things[number])

    def _with_path(self, state: State, check: Callable[..., None], *arguments: Any) -> None:
        try:
            check(*arguments)
        except Broken as broken:
            path: list[str] = []
            while self._from[state][0] != state:
                state, step_name = self._from[state]
                path.append(step_name)
            raise Broken("\n  ".join((str(broken), *reversed(path)))) from None
