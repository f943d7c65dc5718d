"""recover, gc and doctor: looking after what crashes leave and what the machine has."""

from __future__ import annotations

from dataclasses import asdict

from twice.cli.options import HERE, Format, Output, Where, boundary, print_json
from twice.core.results.summary import counted


@boundary
def recover(output: Output = Format.text, where: Where = HERE) -> int:
    """Settle attempts that went silent.

    It asks the tables what became of them; it never runs a task.
    """
    from twice.project import upkeep

    with where.open() as opened:
        settled = upkeep.recover(opened)
        left = upkeep.open_attempts(opened)
    if output is Format.json:
        print_json({"settled": [{**asdict(s), "state": s.state.value} for s in settled], "open": len(left)})
        return 0
    for attempt in settled:
        print(f"{attempt.task}[{', '.join(attempt.labels)}]: attempt {attempt.attempt[:8]} is {attempt.state.value}")
    print(f"{counted(len(settled), 'attempt')} settled, {len(left)} still at work")
    if any(attempt.state.value != "published" for attempt in settled):
        print("next: run these slices again; what landed is not repeated")
    return 0


@boundary
def gc(output: Output = Format.text, where: Where = HERE) -> int:
    """Delete what dead attempts staged, and the scratch files of killed processes.

    Only where no process can publish it any more.
    """
    from twice.project import upkeep

    with where.open() as opened:
        removed = upkeep.gc(opened)
    if output is Format.json:
        print_json({"collected": [asdict(one) for one in removed]})
        return 0
    for one in removed:
        files, attempts = counted(one.files, "file"), counted(len(one.attempts), "attempt")
        print(f"{one.task}: {files} of {attempts} deleted, {counted(len(one.kept), 'attempt')} kept")
        if one.kept:
            print(
                f"  kept until {', '.join(one.slices)} is published again: a process may still publish what it staged"
            )
        if one.unasked:
            print(f"  the table it wrote before could not be asked ({one.unasked}): what is open there stays open")
        if one.given_up:
            print(
                f"  {counted(len(one.given_up), 'attempt')} may have left files. The task is no longer declared, so gc "
                "does not know its table. Run VACUUM on that table to delete their files."
            )
    print(f"{counted(sum(one.files for one in removed), 'file')} deleted")
    return 0


@boundary
def doctor(output: Output = Format.text) -> int:
    """Check what twice needs of this machine. Exit 4 if something is missing."""
    from twice.project import machine

    checks = machine.doctor()
    if output is Format.json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
            if not check.ok:
                print(f"      {check.fix}")
    return 0 if all(check.ok for check in checks) else 4
