"""The key recipe for Python values: pinned for ever, and never the same bytes for two different lists of values."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twice import keys
from twice.engine.code.sql import parameters_in, tables_in
from twice.errors import UsageError
from twice.keys import WallTime, key_bytes, stable_row_hash, stable_row_hash_sql, surrogate_key, surrogate_key_sql

UTC = timezone.utc

# Made once, on the day of the recipe. A change here is a change of every table's keys: it must be another recipe.
GOLDEN: list[tuple[tuple[Any, ...], bytes, str]] = [
    ((None,), b"N;", "4b750a32eae669df8286cf8a245b39b2"),
    (("",), b"s0:;", "0e88ee645388cc2924a447181aa06459"),
    (("NULL",), b"s4:NULL;", "4301b442785b724986dea281057a2216"),
    (("1", "23"), b"s1:1;s2:23;", "e3ea7baaa88dfe7cefadb8bc737e5957"),
    (("12", "3"), b"s2:12;s1:3;", "11337e5e499be5310bbdc38902733747"),
    ((None, "a"), b"N;s1:a;", "fe6b4d1198ad246ac366d5b101e86c49"),
    (("a", None), b"s1:a;N;", "73b2ba26127510d7848722088b0fa0ab"),
    (("Zoë 🛒\0",), b"s10:Zo\xc3\xab \xf0\x9f\x9b\x92\0;", "70a3ccfa4b25f4f4d2aaf8200bee7fbe"),
    ((1,), b"n1;", "ae131b57ca4b8f72f35e598f81462994"),
    ((-(2**63),), b"n-9223372036854775808;", "22a3c1200475a701f183614fdeb8b22c"),
    ((Decimal("1.10"),), b"n1.1;", "25aa98f7abfa1820af2c66c6401d6a9c"),
    ((Decimal("-0.00"),), b"n0;", "d4df769e3b0bbaa234561b3624a54157"),
    ((Decimal("-0.0001200"),), b"n-0.00012;", "747a0788584d156a09c872b8d4a1aaf9"),
    ((-0.0,), b"f0x0.0p0;", "0f111df8c41f58b82fc50db4e4a2f496"),
    ((0.1,), b"f0x1.999999999999ap-4;", "1f31b1c1b6447f5acceac386e193fbb4"),
    ((float("nan"), float("-inf")), b"fNaN;f-Infinity;", "62e8bdb4a46c494662eb96e263d86f57"),
    ((True, False), b"btrue;bfalse;", "ec4358b387fa1cc34285d151823675f2"),
    ((date(1, 1, 1), date(9999, 12, 31)), b"d0001-01-01;d9999-12-31;", "c49b4c162cea01c2cb976c335e00e9a7"),
    ((datetime(2026, 6, 9, 22, 15, tzinfo=UTC),), b"t2026-06-09 22:15:00.000000;", "16db85d4a34a13d3e15fc96ce40c804d"),
    (
        (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),),
        b"t1969-12-31 23:59:59.999999;",
        "d16adfd904b52a93cade05a3871a545a",
    ),
    ((WallTime(datetime(2026, 6, 9, 22, 15)),), b"w2026-06-09 22:15:00.000000;", "2767e7db842433b7bbf16c0d931a5858"),
    ((b"\x00\xff",), b"x00FF;", "0310961f93d4109b94521931186de198"),
    (("DE", 1001, None), b"s2:DE;n1001;N;", "ec6c30dda75c19a4603f0b66cb55ddc1"),
]


@pytest.mark.parametrize(("values", "message", "key"), GOLDEN, ids=lambda value: repr(value)[:40])
def test_a_key_is_today_what_it_was_when_the_recipe_was_made(values: tuple[Any, ...], message: bytes, key: str) -> None:
    assert key_bytes(*values) == b"twice/key/v1:" + message
    assert surrogate_key(*values) == key
    assert hashlib.sha256(b"twice/key/v1:" + message).hexdigest().startswith(key)


def test_a_row_hash_is_today_what_it_was_when_the_recipe_was_made() -> None:
    message = b"twice/row/v1:s6:amount;n12.5;s2:id;n7;s4:note;N;"
    hashed = stable_row_hash({"id": 7, "note": None, "Amount": Decimal("12.50")})
    assert hashed == hashlib.sha256(message).hexdigest()[:32] == "d86a5bb13cd4cd4f5a4cfa5ba42cb5be"


def test_the_sql_of_a_key_may_stand_in_a_sql_task() -> None:
    query = (
        f"SELECT {surrogate_key_sql('o.region', 'id')} AS sk, {stable_row_hash_sql('id')} AS h FROM shop.orders AS o"
    )
    assert tables_in(query) == ("shop.orders",)
    assert parameters_in(query) == ()


WHOLE = st.integers(-(10**38) + 1, 10**38 - 1)
EXACT = st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20)
SCALED = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-999, 999), st.integers(-9, 9)
)
# Words made of the recipe's own marks: where an encoding is ambiguous, these find it.
TEXT = st.one_of(st.text("sN0123456789:;n.", max_size=6), st.text(max_size=6))
VALUE = st.one_of(
    st.none(),
    TEXT,
    st.booleans(),
    st.integers(-12, 12),
    WHOLE,
    EXACT,
    SCALED,
    st.floats(),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("America/New_York"), timezone(timedelta(minutes=345))])),
    st.datetimes().map(WallTime),
    st.binary(max_size=4),
).filter(lambda value: not (isinstance(value, datetime) and value.year in (1, 9999)))
VALUES = st.lists(VALUE, min_size=1, max_size=4)


@given(VALUES, VALUES)
@example(["1", "23"], ["12", "3"])
@example([None, "a"], ["a", None])
@example([None], [""])
@example(["NULL"], [None])
@example(["a"], ["a", None])
@example([1], ["1"])
@example([1], [True])
@example([1], [1.0])
@example([date(2026, 6, 9)], ["2026-06-09"])
@example([datetime(2026, 6, 9, tzinfo=UTC)], [WallTime(datetime(2026, 6, 9))])
@example([b"a"], ["a"])
@example(["a;s1:b"], ["a", "b"])
@example([0.0], [-0.0])
@example([Decimal("1.10")], [Decimal("1.1")])
@example([Decimal("1.0")], [1])
def test_keys_are_equal_exactly_where_the_values_are(one: list[Any], other: list[Any]) -> None:
    same = [_meaning(value) for value in one] == [_meaning(value) for value in other]
    assert (key_bytes(*one) == key_bytes(*other)) == same
    assert (surrogate_key(*one) == surrogate_key(*other)) == same


@given(VALUES)
def test_the_bytes_can_be_read_back(values: list[Any]) -> None:
    assert _read(key_bytes(*values)) == [_meaning(value) for value in values]


@given(VALUES)
def test_a_key_is_128_bits_in_lower_case_hexadecimal(values: list[Any]) -> None:
    assert re.fullmatch("[0-9a-f]{32}", surrogate_key(*values))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_written_exactly_and_as_short_as_java_writes_it(value: float) -> None:
    text = key_bytes(value).decode().removeprefix("twice/key/v1:f").removesuffix(";")
    assert float.fromhex(text) == value
    assert re.fullmatch(r"-?0x[01]\.(0|[0-9a-f]*[1-9a-f])p-?\d+", text)


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=5), VALUE), min_size=1, max_size=5, unique_by=lambda p: p[0].lower()
    )
)
def test_a_row_hash_knows_neither_the_order_nor_the_case_of_columns(columns: list[tuple[str, Any]]) -> None:
    hashed = stable_row_hash(dict(columns))
    assert stable_row_hash(dict(reversed(columns))) == hashed
    assert stable_row_hash({name.lower(): value for name, value in columns}) == hashed
    assert stable_row_hash({**dict(columns), "longer name": 1}, *dict(columns)) == hashed
    assert stable_row_hash({**dict(columns), "longer name": None}) != hashed


def test_a_value_that_moves_to_another_column_changes_the_row_hash() -> None:
    assert stable_row_hash({"a": 1, "b": None}) != stable_row_hash({"a": None, "b": 1})
    assert stable_row_hash({"a": 1}) != stable_row_hash({"b": 1})
    assert stable_row_hash({"a": "x"}) != surrogate_key("a", "x")


def test_the_same_instant_has_one_key_in_every_zone() -> None:
    instant = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    berlin = ZoneInfo("Europe/Berlin")
    assert surrogate_key(instant) == surrogate_key(instant.astimezone(berlin))
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    assert surrogate_key(first) != surrogate_key(first.replace(fold=1)), "02:30 happens twice that night"


def test_letters_that_look_the_same_are_not_normalised() -> None:
    assert surrogate_key("\u00e9") != surrogate_key("e\u0301")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (datetime(2026, 6, 9), "the datetime 2026-06-09T00:00:00 has no zone, so it is not an instant"),
        ([1], "does not take a builtins.list"),
        ({"a": 1}, "does not take a builtins.dict"),
        ((1, 2), "does not take a builtins.tuple"),
        (timedelta(1), "does not take a datetime.timedelta"),
        (1j, "does not take a builtins.complex"),
        (Decimal("NaN"), "not an exact number"),
        (Decimal("Infinity"), "not an exact number"),
        (10**38, "more than 38 digits"),
        (Decimal("1E-39"), "more than 38 digits"),
        (Decimal("1E+999999"), "more than 38 digits"),
        ("\ud83d", "half of a surrogate pair"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), "outside the years 1 to 9999"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_value_that_spark_could_not_hold_or_would_read_otherwise_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        surrogate_key("fine", value)


def test_a_datetime_finer_than_spark_is_refused_and_not_cut() -> None:
    class Nanoseconds(datetime):  # as pandas.Timestamp is one
        nanosecond = 1

    for value in (Nanoseconds(2026, 6, 9, tzinfo=UTC), WallTime(Nanoseconds(2026, 6, 9))):
        with pytest.raises(UsageError, match="finer than a microsecond"):
            surrogate_key(value)


def test_a_wall_time_with_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="has a zone, and a TIMESTAMP_NTZ has none"):
        WallTime(datetime(2026, 6, 9, tzinfo=UTC))


def test_a_key_of_nothing_is_refused_everywhere() -> None:
    for call in (surrogate_key, key_bytes, surrogate_key_sql, stable_row_hash_sql):
        with pytest.raises(UsageError, match="needs at least one"):
            call()
    with pytest.raises(UsageError, match="needs at least one column"):
        stable_row_hash({})


def test_columns_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(UsageError, match="column id is there more than once"):
        stable_row_hash({"id": 1, "ID": 2})
    with pytest.raises(UsageError, match="column id is there more than once"):
        stable_row_hash_sql("o.id", "c.Id")


def test_a_name_that_is_no_name_is_refused() -> None:
    with pytest.raises(UsageError, match="'' is not a column name"):
        surrogate_key_sql("")


def test_the_module_of_keys_is_its_public_names_and_loads_no_engine() -> None:
    assert sorted(keys.__all__) == keys.__all__
    code = "import sys, twice, twice.keys as k; k.surrogate_key_sql('a'); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def _meaning(value: Any) -> tuple[str, Any]:
    """What the value stands for, without the recipe."""
    match value:
        case None:
            return ("N", None)
        case bool():
            return ("b", value)
        case int() | Decimal():
            return ("n", Fraction(value))
        case float():
            return ("f", "NaN" if value != value else value)
        case WallTime():
            return ("w", value.value)
        case datetime():
            return ("t", value.astimezone(UTC))
        case date():
            return ("d", value)
        case str():
            return ("s", value)
        case _:
            return ("x", bytes(value))


def _read(message: bytes) -> list[tuple[str, Any]]:
    """A reader of the recipe, written from its description."""
    rest, found = message.removeprefix(b"twice/key/v1:"), []
    while rest:
        tag, rest = rest[:1].decode(), rest[1:]
        if tag == "s":
            size, _, rest = rest.partition(b":")
            text, end, rest = rest[: int(size)], rest[int(size) : int(size) + 1], rest[int(size) + 1 :]
            assert end == b";"
        else:
            text, _, rest = rest.partition(b";")
        found.append((tag, _READERS[tag](text.decode())))
    return found


_READERS: dict[str, Any] = {
    "N": lambda text: None,
    "s": str,
    "n": lambda text: Fraction(Decimal(text)),
    "f": lambda text: "NaN" if text == "NaN" else float.fromhex(text),
    "b": lambda text: {"true": True, "false": False}[text],
    "d": date.fromisoformat,
    "t": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    "w": datetime.fromisoformat,
    "x": bytes.fromhex,
}
