from __future__ import annotations

from collections import Counter

from twice.core.ports import Suspicion
from twice.core.results.proof import Difference
from twice.proof.effect_counts import compare_effects
from twice.proof.jobs.write import Write, blame_writes, vanished

UUID = Suspicion("uuid", ("id",), "it draws other values on each run", "Use surrogate_key(…).")
DOUBLED = Difference((), 0, 5, doubled=5)
ORDERS = "shop.orders"
EFFECT_IN_THE_CODE = ("effect in the code", "Declare it as an effect of the task.")
FOLDER = "/tmp/copy/shop/orders"


def blamed(difference: Difference, *writes: Write) -> list[tuple[str, tuple[str, ...]]]:
    return [(cause.name, cause.columns) for cause in blame_writes(difference, ORDERS, writes)]


def test_rows_that_are_there_twice_are_blamed_on_the_append() -> None:
    assert blamed(DOUBLED, Write("append", FOLDER)) == [("append", ())]


def test_an_append_to_another_table_is_not_blamed() -> None:
    assert blamed(DOUBLED, Write("append", "/tmp/copy/shop/others")) == [("code", ())]


def test_a_merge_on_a_key_that_is_new_each_time_is_blamed_on_the_key_not_on_the_merge() -> None:
    merge = Write("MERGE", f"delta.`{FOLDER}`", "MERGE INTO …", likely=(UUID,))
    assert blamed(Difference((), 0, 5), merge) == [("uuid", ("id",))]


def test_a_column_that_is_set_from_its_own_old_value_is_a_counter() -> None:
    statement = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.quantity = t.quantity + s.moved"
    assert blamed(Difference(("quantity",), 5, 5), Write("MERGE", f"delta.`{FOLDER}`", statement)) == [
        ("counter", ("quantity",))
    ]


def test_rows_that_are_missing_after_another_write_came_first_are_blamed_on_the_mark() -> None:
    assert blamed(Difference((), 5, 0), Write("file", "done/2026-06-09")) == [("mark before data", ())]


def test_partitions_that_are_gone_are_blamed_on_an_overwrite_that_does_not_say_which_it_means() -> None:
    wide = Write("overwrite", FOLDER, partitions=("day",))
    assert vanished(ORDERS, [wide]).name == "static overwrite"
    assert vanished(ORDERS, [Write("overwrite", FOLDER, partitions=("day",), selective=True)]).name == "lost partitions"


def test_a_request_that_was_sent_more_often_than_once_is_an_effect_in_the_code() -> None:
    assert compare_effects(Counter({"POST /pay": 1}), Counter({"POST /pay": 1}), *EFFECT_IN_THE_CODE) is None
    found = compare_effects(Counter({"POST /pay": 1}), Counter({"POST /pay": 2}), *EFFECT_IN_THE_CODE)
    assert found is not None
    assert found.causes[0].why == "POST /pay was sent 2 times where one clean run sends it 1 times"
