"""Which functions of Spark's workers are shown to be the same, and which never are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from twice.engine.values import Worked, worked_out

UNSURE = {
    "the clock": """
        from datetime import datetime
        def f(x): return datetime.now().year + x
    """,
    "today": "import datetime as dt\ndef f(x): return dt.date.today()",
    "the clock, imported inside": "def f(x):\n    import time\n    return time.time()",
    "the clock by its bare name": "from time import time\ndef f(x): return time()",
    "uuid4": "import uuid\ndef f(x): return str(uuid.uuid4())",
    "dice": "import random\ndef f(x): return random.random()",
    "dice by its bare name": "from random import choice\ndef f(x): return choice([1, 2])",
    "secrets": "import secrets\ndef f(x): return secrets.token_hex()",
    "urandom": "import os\ndef f(x): return os.urandom(4)",
    "the environment": "import os\ndef f(x): return os.environ['RATE']",
    "the environment by getenv": "from os import getenv\ndef f(x): return getenv('RATE')",
    "a file": "def f(x): return open('rates.json').read()",
    "a file by its path": "from pathlib import Path\ndef f(x): return Path('rates').read_text()",
    "in a function that it calls": "import uuid\ndef g(): return uuid.uuid4()\ndef f(x): return g()",
    "in a lambda inside": "import random\ndef f(x): return sorted(x, key=lambda each: random.random())",
    "in a method": "import time\nclass Now:\n    def at(self): return time.time()\ndef f(x): return Now().at()",
    "code made on the way": "def f(x): return eval(x)",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK:\n        return x",
}


def of(text: str, **names: Any) -> Callable[..., Any]:
    """The function `f` of a module with this text, loaded from no file; some of its names set from outside."""
    module = ModuleType("from_a_test")
    exec(textwrap.dedent(text), module.__dict__)
    module.__dict__.update(names)
    found: Callable[..., Any] = module.__dict__["f"]
    return found


def told(text: str, **names: Any) -> Worked:
    return worked_out("f", of(text, **names))


def differ(text: str, one: Any, other: Any) -> bool:
    """Whether `VALUE` counts. Twice the same value must be the same."""
    first, again, changed = (told(text, VALUE=value).identity for value in (one, one, other))
    assert first is not None and first == again
    return first != changed


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE.keys())
def test_a_function_that_asks_what_changes_is_never_shown_to_be_the_same(text: str) -> None:
    found = told(text)
    assert found.identity is None
    assert found.why


def test_it_says_what_the_function_asks() -> None:
    assert told(UNSURE["the clock"]).why == "asks the clock (datetime.datetime.now)"
    assert told(UNSURE["dice by its bare name"]).why == "draws at random (random.choice)"
    assert told(UNSURE["a file"]).why == "reads what is outside while it runs (io.open)"
    assert told(UNSURE["a lock"]).why == "holds a _thread.lock, which cannot be compared"


def test_a_column_of_that_name_is_no_file_and_a_seeded_generator_no_dice() -> None:
    assert told("def f(row): return row.open - row.time").identity
    assert told("import random\nRNG = random.Random(7)\ndef f(x): return RNG.random()").identity
    assert told("from datetime import datetime\ndef f(x): return datetime.fromisoformat(x)").identity


@dataclass(frozen=True)
class Rate:
    code: str
    factor: Decimal


class Colour(Enum):
    RED = 1
    BLUE = 2


class Model:
    """As a library's: state in attributes."""

    def __init__(self, *weights: float) -> None:
        self.weights = list(weights)


VALUES: dict[str, tuple[Any, Any]] = {
    "a number": (1, 2),
    "one and true": (1, True),
    "a text": ("a", "b"),
    "a dictionary, deep": ({"rates": {"usd": [1, 2]}}, {"rates": {"usd": [1, 3]}}),
    "a set": ({"a", "b"}, {"a", "c"}),
    "one text and two": (["x, y"], ["x", "y"]),
    "a dataclass": (Rate("usd", Decimal("1.1")), Rate("usd", Decimal("1.2"))),
    "an enum": (Colour.RED, Colour.BLUE),
    "a pattern": (re.compile("a"), re.compile("b")),
    "an object": (Model(0.1, 0.2), Model(0.1, 0.3)),
    "a function": (lambda x: x, lambda x: x + 1),
    "a partial": (partial(max, 1), partial(max, 2)),
    "a range": (range(3), range(4)),
}


@pytest.mark.parametrize(("one", "other"), VALUES.values(), ids=VALUES.keys())
def test_a_global_that_the_function_names_counts_by_its_content(one: Any, other: Any) -> None:
    assert differ("VALUE = None\ndef f(x): return (x, VALUE)", one, other)


def test_what_a_function_that_it_calls_names_counts_too() -> None:
    assert differ("VALUE = None\ndef g(x): return x * VALUE\ndef f(x): return [g(each) for each in x]", 1, 2)
    assert differ("VALUE = 1\nclass Tax:\n    def of(self, x): return x * VALUE\ndef f(x): return Tax().of(x)", 1, 2)


def test_what_a_class_that_it_uses_keeps_for_itself_counts() -> None:
    def tax(rate: int) -> type:
        return type("Tax", (), {"_rate": rate, "of": lambda self, x: x * self._rate})

    assert differ("VALUE = None\ndef f(x): return VALUE().of(x)", tax(1), tax(2))


def test_a_global_that_it_does_not_name_does_not_count() -> None:
    assert not differ("VALUE = None\ndef f(x): return x.VALUE", 1, 2)


def test_a_function_behind_a_cache_is_looked_into() -> None:
    def cached(factor: int) -> Any:
        return lru_cache(lambda x: x * factor)

    assert differ("VALUE = None\ndef f(x): return VALUE(x)", cached(1), cached(2))


def test_an_attribute_of_a_module_of_the_project_counts_and_its_neighbour_does_not() -> None:
    def settings(rate: int, other: int) -> ModuleType:
        made = ModuleType("settings_of_a_test")
        made.__dict__.update(RATE=rate, OTHER=other)
        return made

    text = "VALUE = None\ndef f(x): return x * VALUE.RATE"
    assert differ(text, settings(1, 1), settings(2, 1))
    assert not differ(text, settings(1, 1), settings(1, 2))


def test_values_closed_over_count_and_a_lock_among_them_is_never_the_same() -> None:
    def closing(held: Any) -> Any:
        return lambda x: (x, held)

    assert worked_out("f", closing([1])).identity == worked_out("f", closing([1])).identity
    assert worked_out("f", closing([1])).identity != worked_out("f", closing([2])).identity
    assert worked_out("f", closing(threading.Lock())).identity is None


def test_another_version_of_a_package_that_it_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlglot

    from twice.engine import owners

    def now(version: str) -> str | None:
        owners.version_of.cache_clear()
        monkeypatch.setattr(sqlglot, "__version__", version)
        return told("import sqlglot\ndef f(x): return sqlglot.parse_one(x).sql()").identity

    found = [now("1.0"), now("1.0"), now("1.1")]
    owners.version_of.cache_clear()
    assert found[0] == found[1] != found[2]


def test_too_much_to_compare_is_never_the_same() -> None:
    assert "too many to compare" in told("VALUE = None\ndef f(x): return VALUE", VALUE=list(range(300_000))).why


def test_a_ring_of_values_and_functions_ends() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert told("VALUE = None\ndef f(x): return f(VALUE)", VALUE=ring).identity


def test_a_comment_and_a_docstring_do_not_count(tmp_path: Path) -> None:
    def loaded(name: str, text: str) -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        made = ModuleType(name)
        exec(compile(path.read_text(), str(path), "exec"), made.__dict__)
        return made.__dict__["f"]

    one = loaded("one", "def f(x):\n    return x + 1\n")
    other = loaded("other", 'def f(x):\n    """One more."""\n\n    # really\n    return x + 1\n')
    assert worked_out("f", one).identity == worked_out("f", other).identity is not None


def test_it_is_the_same_in_another_process_whatever_the_order_of_its_sets() -> None:
    program = """
        from twice.engine.values import worked_out
        NAMES = {"a", "bb", "ccc", "dddd", frozenset({"x", "y", "z"})}
        def f(x): return x in NAMES or x in {"p", "q", "r"}
        print(worked_out("f", f).identity)
    """

    def found(seed: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(program)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout

    assert found("1") == found("2") != "None\n"


def numbers() -> Iterator[int]:
    yield 1


def test_an_iterator_that_is_half_read_is_never_the_same() -> None:
    assert told("VALUE = None\ndef f(x): return next(VALUE)", VALUE=numbers()).identity is None
