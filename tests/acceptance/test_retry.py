"""A job whose source is away: tried again by itself, left to the next run when it stays away; what is the slice's own
is set aside, and taken up by a person."""

from __future__ import annotations

from .conftest import Shop

RUN = ("run", "prices", "--date", "2026-06-09")
JOB = """
    from datetime import timedelta
    from twice import Daily, Policy, Retry, read, replace, task

    @task("shop.prices", scope=Daily("order_date", start="2026-01-01"), write=replace(),
          inputs={"orders": read("shop.orders", by="order_date")},
          policy=Policy(retry=Retry(attempts=2, first=timedelta(0))))
    def prices(orders, run):
        away = run.root / "away"
        left = int(away.read_text()) if away.exists() else 0
        if left:
            away.write_text(str(left - 1))
            if left > 7:
                raise RuntimeError("ExecutorLostFailure (the rows of this day do not fit into memory)")
            raise ConnectionResetError("the price service hung up")
        return orders
"""


def test_a_transient_error_is_tried_again_shown_and_at_last_left_to_a_person(stocked: Shop) -> None:
    stocked.write("pipelines/prices.py", JOB)
    away = stocked.root / "away"
    away.write_text("1")
    first = stocked.call(*RUN)
    assert first.code == 0, first.err
    shown = stocked.call("history", "prices").out
    assert "note: attempt 1 of 2 failed, transient (ConnectionError); tried again after 0.0 s" in shown

    away.write_text("2")
    outage = stocked.call("run", "prices", "--date", "2026-06-11")
    assert outage.code == 1
    assert "the price service hung up" in outage.err
    assert "(It was tried 2 times in " in outage.err
    assert outage.err.strip().endswith(" s; the next run tries again.)")
    assert stocked.call("run", "prices", "--date", "2026-06-11").code == 0, "nobody is locked out by an outage"

    day = ("--date", "2026-06-10")
    away.write_text("9")
    stays = stocked.call("run", "prices", *day)
    assert stays.code == 5
    assert "error[quarantined]: prices[2026-06-10]: 2 attempts within" in stays.err
    assert "do not fit into memory" in stays.err
    assert stays.err.strip().endswith(f"when the cause is gone: twice retry {stocked.named} prices --date 2026-06-10.")
    refused = stocked.call("run", "prices", *day)
    assert refused.code == 5
    assert "the slice has been quarantined since" in refused.err
    assert away.read_text() == "7"  # nothing was tried

    status = stocked.call("status", "prices")
    assert status.code == 1
    assert status.out.splitlines()[2].split() == ["prices[2026-06-10]", "-", "-", "-", "quarantined"]
    assert stocked.call("run", "--all", *day).code == 1

    away.unlink()
    lifted = stocked.call("retry", "--failed")
    assert lifted.code == 0, lifted.err
    assert "prices[2026-06-10]: published" in lifted.out
    assert "1 of 1 task is done" in lifted.out
    assert stocked.call("status", "prices").code == 0
    assert stocked.call("retry", "--failed").out == "nothing has failed\n"
    assert stocked.call("retry", "prices", *day).out.splitlines()[0].startswith("prices[2026-06-10]: already published")


def test_retry_needs_to_know_what(shop: Shop) -> None:
    for arguments in ((), ("prices", "--failed"), ("--failed", "--date", "2026-06-09")):
        answer = shop.call("retry", *arguments)
        assert answer.code == 2
        assert "retry takes a task, with or without a --date, or several, or --failed" in answer.err


def test_an_interrupt_ends_with_130(shop: Shop) -> None:
    shop.write("pipelines/revenue.py", "raise KeyboardInterrupt")
    assert shop.spawn("status").code == 130
