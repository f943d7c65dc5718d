"""Every guard of retries, queues and inboxes is needed: without it, a named test goes red.

Each case runs that test on a copy of the source from which the guard was taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Guard:
    name: str
    file: str
    there: str
    without: str
    test: str


SQLITE, POSTGRES = "tests/contracts/test_sqlite_queue.py", "tests/contracts/test_postgres_queue.py"
RETRY = "tests/unit/runtime/test_retry.py"
GUARDS = (
    Guard(
        "the fence where the work commits",
        "ledgers/items.py",
        ", items.c.fence == item.fence)",
        ")",
        f"{SQLITE}::TestClaim::test_a_claim_is_not_a_lease_the_fence_is_checked_where_the_work_commits",
    ),
    Guard(
        "the status where the work commits",
        "ledgers/items.py",
        'items.c.status == "processing", ',
        "",
        f"{SQLITE}::TestComplete::test_a_done_item_again_is_a_no_op",
    ),
    Guard(
        "rows that others hold are passed over",
        "ledgers/items.py",
        "with_for_update(skip_locked=True)",
        "with_for_update()",
        f"{POSTGRES}::TestClaim::test_a_claim_passes_over_rows_that_another_transaction_has_locked",
    ),
    Guard(
        "a claimed item is not due",
        "ledgers/items.py",
        "due=until,",
        "due=now,",
        f"{SQLITE}::TestClaim::test_an_update_by_id_alone_would_let_two_workers_take_one_item",
    ),
    Guard(
        "a known id keeps its body",
        "runtime/queue.py",
        "if known is not None and known != asked:",
        "if False:",
        f"{SQLITE}::TestPut::test_the_same_id_with_another_body_is_an_error",
    ),
    Guard(
        "a known message keeps its body",
        "runtime/inbox.py",
        "if known not in (None, digest):",
        "if False:",
        f"{SQLITE}::TestInbox::test_redelivery_with_another_body_is_an_error",
    ),
    Guard(
        "our row and the handler's work are one transaction",
        "ledgers/handling.py",
        "                connection.rollback()",
        "                connection.commit()",
        f"{SQLITE}::TestInbox::test_a_handler_that_fails_has_done_nothing_and_is_tried_again",
    ),
    Guard(
        "a handler must not end the transaction",
        "ledgers/handling.py",
        "if not kept:",
        "if False:",
        f"{SQLITE}::TestComplete::test_a_handler_that_ends_the_transaction_by_itself_is_told",
    ),
    Guard(
        "an item that kills its workers is set aside",
        "runtime/queue.py",
        "if item is None or item.attempts <= self._policy.attempts:",
        "if True:",
        f"{SQLITE}::TestFail::test_an_item_that_kills_its_workers_becomes_a_dead_letter",
    ),
    Guard(
        "a run leaves a quarantined slice alone",
        "runtime/lease.py",
        "refuse_quarantined(shop, task, labels)",
        "pass",
        f"{RETRY}::test_a_run_refuses_a_quarantined_slice_and_tries_nothing",
    ),
    Guard(
        "a retry frees what its last attempt could not",
        "runtime/retry.py",
        "shop.ledger.release(before)",
        "pass",
        f"{RETRY}::test_an_attempt_whose_end_the_ledger_did_not_hear_does_not_keep_its_own_retry_out",
    ),
    Guard(
        "no quarantine over somebody else's attempt",
        "ledgers/quarantine.py",
        ", runs.c.last_fence == fence)",
        ")",
        f"{RETRY}::test_a_quarantine_does_not_hit_a_slice_that_another_attempt_has_taken_up",
    ),
    Guard(
        "an interrupt is never tried again",
        "runtime/attempt.py",
        " or isinstance(error, KeyboardInterrupt):",
        ":",
        f"{RETRY}::test_an_interrupt_is_never_tried_again_and_stays_an_interrupt",
    ),
)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_test_goes_red(guard: Guard, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "src" / "twice" / guard.file
    source = file.read_text()
    assert source.count(guard.there) == 1, f"the guard is not in {guard.file}, or is there twice"
    file.write_text(source.replace(guard.there, guard.without))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", guard.test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-1000:]
    assert " failed" in done.stdout
