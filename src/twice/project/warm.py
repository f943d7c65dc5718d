"""Keeping Spark warm for a project's commands: start a keeper, ask it, end it. The ledger is not opened for it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.config import Settings
from twice.core.ports import SILENT, Progress
from twice.core.results.summary import counted
from twice.engine.warm.fit import digests, misfit, needs
from twice.engine.warm.keeper_file import KeeperFile, read_all
from twice.engine.warm.line import ask, is_listening
from twice.errors import EnvironmentProblem, SliceBusy, UsageError
from twice.runtime.holder import clear_scratch
from twice.wiring.open_project import session_settings

KEEPER = "twice.wiring.warm_keeper"
"""The main module of the process that keeps Spark warm."""
_READY = b"ready"
_END_S = 30.0


@dataclass(frozen=True)
class AttachedCommand:
    pid: int
    command: str


@dataclass(frozen=True)
class WarmSpark:
    """One that is kept for a project's commands. `differs`: why a command that is typed now starts its own instead;
    empty if it attaches. Times in seconds."""

    pid: int
    warm_s: int
    unused_s: int
    idle_s: int
    used_mib: int
    memory_mib: int
    served: int
    attached: tuple[AttachedCommand, ...]
    differs: str


def found(settings: Settings) -> tuple[WarmSpark, ...]:
    """Every one that answers."""
    keepers = _keepers(settings)
    wanted = needs(session_settings(settings)) if keepers else {}
    answers = ((kept, _answer(kept, want="status")) for kept in keepers)
    return tuple(_warm(kept, answer, wanted) for kept, answer in answers if answer is not None)


def start(
    settings: Settings, idle_s: float, memory: str | None = None, progress: Progress = SILENT
) -> tuple[WarmSpark, bool]:
    """The one that commands will attach to, and whether it was started now. It outlives this process."""
    if settings.spark.warm is None:
        raise UsageError(
            "spark.warm is empty in the settings of this project: its commands always start their own Spark",
            fix='Name a folder, or leave it out: warm = ".twice/warm".',
        )
    with _one_at_a_time(settings.spark.warm):
        here = next((each for each in found(settings) if not each.differs), None)
        if here is not None:
            return here, False
        progress.begins("starting", "Spark, to keep it warm")
        _start(settings, settings.spark.warm, idle_s, memory)
    started = next((each for each in found(settings) if not each.differs), None)
    if started is None:
        raise EnvironmentProblem(
            "Spark was started to be kept warm, and does not answer", fix=f"Its messages are in {_log(settings)}."
        )
    return started, True


def stop(settings: Settings, *, by_force: bool = False) -> int:
    """End those that are kept for this project; how many. Not one that a command is attached to, but by force."""
    ended = 0
    for kept in _keepers(settings):
        answer = _answer(kept, want="stop", force=by_force)
        if answer is None:
            continue
        if not answer["ends"]:
            at_work = ", ".join(f"{each['command']} (process {each['pid']})" for each in answer["attached"])
            raise SliceBusy(
                f"{counted(len(answer['attached']), 'command')} at work in the warm Spark: {at_work}",
                fix="Stop it when they have ended; or end them with it: twice warm stop --force.",
            )
        _wait_for_the_end_of(kept)
        ended += 1
    return ended


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """The second of two that are started at once finds the Spark of the first. Dying here releases it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "start.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(settings: Settings, folder: Path, idle_s: float, memory: str | None) -> None:
    clear_scratch(folder / "scratch")
    reading, writing = os.pipe()
    words = [str(writing), str(settings.root), settings.profile or "", str(idle_s), memory or ""]
    try:
        with _log(settings).open("ab") as log:
            subprocess.Popen(
                [sys.executable, "-m", KEEPER, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C at this command's terminal is none of its business
            )
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    if answer != _READY:
        raise EnvironmentProblem(
            f"no Spark was started to be kept warm: {answer.decode() or 'its process has ended'}",
            fix=f"All of its messages are in {_log(settings)}.",
        )


def _log(settings: Settings) -> Path:
    assert settings.spark.warm is not None
    return settings.spark.warm / "keeper.log"


def _wait_for_the_end_of(kept: KeeperFile) -> None:
    until = time.monotonic() + _END_S
    while is_listening(kept) and time.monotonic() < until:
        time.sleep(0.05)


def _keepers(settings: Settings) -> list[KeeperFile]:
    return [] if settings.spark.warm is None else [kept for _, kept in read_all(settings.spark.warm)]


def _answer(kept: KeeperFile, **question: Any) -> dict[str, Any] | None:
    answered = ask(kept, **question)
    if answered is None:
        return None
    line, answer = answered
    line.close()
    return answer


def _warm(kept: KeeperFile, answer: Mapping[str, Any], wanted: Mapping[str, str]) -> WarmSpark:
    attached = tuple(AttachedCommand(**each) for each in answer["attached"])
    differs = misfit(kept.fit, digests(wanted, kept.key)) or ""
    return WarmSpark(**{**answer, "pid": kept.pid, "attached": attached, "differs": differs})
