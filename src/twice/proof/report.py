"""What a proof found, for people and for machines that collect results: a page, JUnit's XML, `proof.json`.

The page needs nothing but itself: no script, no font, no picture from elsewhere. Everything that comes from a table or
from a task's code is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from jinja2 import Environment, StrictUndefined

from twice.core.closed import assert_never
from twice.core.results.proof import Difference, Proof, RowPair, Trial, TrialResult, document

NAMES = ("proof.json", "proof.html", "junit.xml")

_MARKS = {
    TrialResult.SAME: ("same", "✓"),
    TrialResult.CHANGED: ("changed", "✕"),
    TrialResult.NOT_APPLICABLE: ("none", "–"),
}
"""Each result's style and sign: it is known by its shape as well as by its colour."""

_LONGEST = 300


@dataclass(frozen=True)
class ComparedColumn:
    """One column of two rows side by side."""

    name: str
    clean: str | None
    other: str | None

    @property
    def differs(self) -> bool:
        return self.clean != self.other


def write_report(proofs: Sequence[Proof], folder: Path) -> tuple[Path, ...]:
    """The three files. Written over those of an earlier proof; dying here leaves some of them old."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (json.dumps(document(proofs), indent=2, default=str) + "\n", html(proofs), junit(proofs))
    paths = tuple(folder / name for name in NAMES)
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def html(proofs: Sequence[Proof]) -> str:
    """One page: every task and scenario, and below it each difference."""
    scenarios = list(dict.fromkeys(trial.scenario for proof in proofs for trial in proof.trials))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(
        (files("twice.proof") / "templates" / "proof.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(
        proofs=proofs,
        scenarios=scenarios,
        trial_of=_trial_of,
        mark=lambda result: _MARKS[result],
        lines=_lines,
        headline=headline,
        counts=_counts(proofs),
        changed=[(proof, trial) for proof in proofs for trial in proof.changed],
        skipped=[
            (proof, trial) for proof in proofs for trial in proof.trials if trial.result is TrialResult.NOT_APPLICABLE
        ],
    )


def junit(proofs: Sequence[Proof]) -> str:
    """One suite for each proof, one case for each scenario; what was not applicable is skipped. A plan that
    `twice run` refuses is a failure of its own."""
    root = Xml.Element("testsuites", _totals(proofs))
    for proof in proofs:
        name = f"{proof.task}[{proof.label}]"
        suite = Xml.SubElement(root, "testsuite", {"name": name, "timestamp": proof.at.isoformat()} | _totals([proof]))
        if proof.refused:
            case = Xml.SubElement(suite, "testcase", {"classname": name, "name": "guard", "time": "0.000"})
            failure = Xml.SubElement(case, "failure", {"message": "twice run refuses this plan"})
            failure.text = _printable("\n".join(proof.refused))
        for trial in proof.trials:
            case = Xml.SubElement(
                suite, "testcase", {"classname": name, "name": trial.scenario, "time": f"{trial.seconds:.3f}"}
            )
            match trial.result:
                case TrialResult.SAME:
                    pass
                case TrialResult.NOT_APPLICABLE:
                    Xml.SubElement(case, "skipped", {"message": _printable(trial.reason)})
                case TrialResult.CHANGED:
                    failure = Xml.SubElement(case, "failure", {"message": _printable(headline(trial))})
                    failure.text = _printable(describe_difference(trial))
                case _:
                    assert_never(trial.result)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def headline(trial: Trial) -> str:
    """What differed, in one line."""
    return (trial.difference and summary(trial.difference)) or trial.reason


def summary(found: Difference) -> str:
    """How much of two tables differs, in one line; empty where it is not the rows that do."""
    if found.columns:
        names = ", ".join(found.columns)
        rows = f"{found.rows:,} row{'' if found.rows == 1 else 's'} "
        return f"{rows if found.rows else ''}differ{'s' if found.rows <= 1 else ''} in {names}"
    parts = [
        f"{found.missing:,} missing" if found.missing else "",
        f"{found.added:,} more than after one clean run" if found.added else "",
        f"{found.doubled:,} of them copies" if found.doubled else "",
    ]
    counts = ", ".join(part for part in parts if part)
    return f"rows: {counts}" if counts else ""


def describe_difference(trial: Trial) -> str:
    """The whole difference as plain text."""
    lines = [f"{trial.scenario}: {trial.reason}", headline(trial)]
    if trial.difference is not None:
        lines += side_by_side(trial.difference, ("clean", trial.scenario))
        lines += [f"likely: {cause.why}\nfix: {cause.fix}" for cause in trial.difference.causes]
    return "\n".join(dict.fromkeys(lines))


def side_by_side(found: Difference, sides: tuple[str, str]) -> list[str]:
    """The rows that are shown, a line for each: the values that differ, then those that identify the row."""
    lines = []
    for pair in found.pairs:
        there = _lines(pair, found.columns)
        if pair.clean is None or pair.other is None:
            only = sides[0] if pair.other is None else sides[1]
            values = (f"{line.name}={line.clean if pair.other is None else line.other}" for line in there)
            lines.append(f"  only {only}: {', '.join(values)}")
            continue
        odd = [f"{line.name}: {sides[0]} {line.clean}, {sides[1]} {line.other}" for line in there if line.differs]
        same = [f"{line.name}={line.clean}" for line in there if not line.differs]
        lines.append(f"  {'; '.join(odd)}" + (f"  where {', '.join(same)}" if same else ""))
    return lines


def _trial_of(proof: Proof, scenario: str) -> Trial | None:
    return next((trial for trial in proof.trials if trial.scenario == scenario), None)


def _counts(proofs: Sequence[Proof]) -> Mapping[TrialResult, int]:
    trials = [trial.result for proof in proofs for trial in proof.trials]
    return {result: trials.count(result) for result in TrialResult}


def _totals(proofs: Sequence[Proof]) -> dict[str, str]:
    trials = [trial for proof in proofs for trial in proof.trials]
    refused = sum(bool(proof.refused) for proof in proofs)
    return {
        "tests": str(len(trials) + refused),
        "failures": str(sum(trial.result is TrialResult.CHANGED for trial in trials) + refused),
        "skipped": str(sum(trial.result is TrialResult.NOT_APPLICABLE for trial in trials)),
        "errors": "0",
        "time": f"{sum(trial.seconds for trial in trials):.3f}",
    }


def _lines(pair: RowPair, first: Sequence[str]) -> list[ComparedColumn]:
    """The columns that differ come first. A side without the row has no values."""
    names = list(dict.fromkeys([*first, *(pair.clean or ()), *(pair.other or ())]))
    return [ComparedColumn(name, _value(pair.clean, name), _value(pair.other, name)) for name in names]


def _value(row: Mapping[str, Any] | None, name: str) -> str | None:
    if row is None or name not in row:
        return None
    text = "NULL" if row[name] is None else str(row[name])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _printable(text: str) -> str:
    """XML cannot carry most control characters."""
    return "".join(each if each in "\t\n" or each >= " " else "�" for each in text)
