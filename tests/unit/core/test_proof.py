from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

from twice.core.results.proof import Cause, Difference, Proof, RowPair, Trial, TrialResult, document

AT = datetime(2026, 6, 9, tzinfo=timezone.utc)
DIFFERENCE = Difference(
    ("at",), 2, 3, pairs=(RowPair({"at": 1}, {"at": 2}),), causes=(Cause("rand", ("at",), "it draws", "Do not."),)
)


def proof(*trials: Trial) -> Proof:
    return Proof("revenue", "2026-06-09", "abc", AT, trials, 1.5)


def test_a_proof_holds_only_if_something_was_shown_and_nothing_differed() -> None:
    same, changed = Trial("twice", TrialResult.SAME, ""), Trial("crash", TrialResult.CHANGED, "", DIFFERENCE)
    no = Trial("batch", TrialResult.NOT_APPLICABLE, "no batch")
    assert proof(same, no).holds
    assert not proof(same, changed).holds
    assert not proof(no).holds
    assert proof(same, changed).changed == (changed,)


def test_what_twice_run_refuses_is_not_proved_though_its_table_was_the_same() -> None:
    refused = replace(proof(Trial("twice", TrialResult.SAME, "")), refused=("drop_duplicates reaches v",))
    assert not refused.holds
    assert "NOT proved, since twice run refuses its plan" in str(refused)


def test_the_document_is_versioned_and_holds_everything_as_plain_data() -> None:
    written = document([proof(Trial("crash", TrialResult.CHANGED, "died", DIFFERENCE, 0.5))])
    assert json.loads(json.dumps(written)) == {
        "schema_version": 1,
        "proofs": [
            {
                "task": "revenue",
                "label": "2026-06-09",
                "code_hash": "abc",
                "at": "2026-06-09T00:00:00+00:00",
                "seconds": 1.5,
                "notes": [],
                "beside": [],
                "not_blocked": [],
                "refused": [],
                "holds": False,
                "trials": [
                    {
                        "scenario": "crash",
                        "verdict": "CHANGED",
                        "reason": "died",
                        "seconds": 0.5,
                        "difference": {
                            "columns": ["at"],
                            "missing": 2,
                            "added": 3,
                            "doubled": 0,
                            "rows": 3,
                            "pairs": [{"clean": {"at": 1}, "other": {"at": 2}}],
                            "causes": [{"name": "rand", "columns": ["at"], "why": "it draws", "fix": "Do not."}],
                        },
                    }
                ],
            }
        ],
    }
