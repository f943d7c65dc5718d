"""Which functions of Spark's workers are shown to be the same, and which never are."""

from __future__ import annotations

import importlib
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
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark.core.broadcast import Broadcast

from twice.engine.code.values import FunctionIdentity, identify_function

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
    "the clock, its class imported inside": """
        def f(x):
            from datetime import datetime
            return datetime.now()
    """,
    "today, imported inside": "def f(x):\n    from datetime import date\n    return date.today()",
    "the second of two names": "def f(x):\n    from uuid import UUID, uuid4\n    return UUID(x), uuid4()",
    "the last of three names": "def f(x):\n    from time import sleep, struct_time, time\n    return time()",
    "under another name": "def f(x):\n    import os.path as path\n    return path.exists(x)",
    "imported outside, called in a function inside": """
        def f(x):
            from datetime import date
            def g(): return date.today()
            return g()
    """,
    "a generator without a seed": "import random\ndef f(x): return random.Random().random()",
    "a generator with None for a seed": "import random\ndef f(x): return random.Random(None).random()",
    "a generator of numpy without a seed": """
        def f(x):
            import numpy as np
            return np.random.default_rng().normal()
    """,
    "urandom by its bare name": "from os import urandom\ndef f(x): return urandom(4)",
    "a folder by its bare name": "from os import listdir\ndef f(x): return listdir(x)",
    "the host by its bare name": "from socket import gethostname\ndef f(x): return gethostname()",
    "the clock as a default": "from datetime import datetime\ndef f(x, now=datetime.now): return now()",
    "the clock as a named default": "import time\ndef f(x, *, now=time.time): return now()",
    "the clock in a partial": """
        from datetime import datetime
        from functools import partial
        NOW = partial(datetime.now, None)
        def f(x): return NOW()
    """,
    "the clock in an object": """
        import time
        class Clock:
            def __init__(self): self.now = time.time
        CLOCK = Clock()
        def f(x): return CLOCK.now()
    """,
    "the clock in a closure": "import time\ndef g(now):\n    return lambda x: now()\nf = g(time.time)",
    "the clock in a list": "import time\nCLOCKS = [time.time]\ndef f(x): return CLOCKS[0]()",
    "the clock's class under another name": """
        from datetime import datetime
        def f(x):
            d = datetime
            return d.now()
    """,
    "the clock's class as an argument": """
        from datetime import datetime
        def g(kind): return kind.now()
        def f(x): return g(datetime)
    """,
    "the clock's class, by a text": "from datetime import datetime\ndef f(x): return getattr(datetime, 'now')()",
    "the clock by a class of one's own": """
        from datetime import datetime
        class Moment(datetime): pass
        def f(x): return Moment.now()
    """,
    "the clock's module under another name": "import time\ndef f(x):\n    t = time\n    return t.time()",
    "another clock": "import time\ndef f(x): return time.perf_counter()",
    "a clock of pandas": "def f(x):\n    import pandas as pd\n    return pd.Timestamp.now()",
    "a clock of pandas, by a text": "def f(x):\n    import pandas as pd\n    return pd.Timestamp('now')",
    "the clock in a header": "import gzip\ndef f(x): return gzip.compress(x)",
    "a packed file": "import gzip\ndef f(x): return gzip.open(x).read()",
    "a file opened by its path": """
        from pathlib import Path
        def f(x):
            with Path('rates').open() as file: return file.read()
    """,
    "a file opened by a path from outside": """
        from pathlib import Path
        RATES = Path('rates')
        def f(x): return RATES.open().read()
    """,
    "whether a file is there": "from pathlib import Path\ndef f(x): return Path(x).exists()",
    "files by a pattern": "from pathlib import Path\ndef f(x): return list(Path(x).glob('*'))",
    "a folder by its path": "from pathlib import Path\ndef f(x): return list(Path(x).iterdir())",
    "the state of a file": "from pathlib import Path\ndef f(x): return Path(x).stat().st_size",
    "a database": "import sqlite3\ndef f(x): return sqlite3.connect(x)",
    "a table by pandas": "def f(x):\n    import pandas as pd\n    return pd.read_csv(x)",
    "a part of Python's library that nobody listed": "import locale\ndef f(x): return locale.str(x)",
    "the process": "import os\ndef f(x): return os.getpid()",
    "globals by a text": "RATE = 1\ndef f(x): return x * globals()['RATE']",
    "an address": "def f(x): return id(x)",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK:\n        return x",
}


def of(text: str, **names: Any) -> Callable[..., Any]:
    """The function `f` of a module with this text, loaded from no file; some of its names set from outside."""
    module = ModuleType("from_a_test")
    exec(compile(textwrap.dedent(text), "<test>", "exec", dont_inherit=True), module.__dict__)
    module.__dict__.update(names)
    found: Callable[..., Any] = module.__dict__["f"]
    return found


def identified(text: str, **names: Any) -> FunctionIdentity:
    return identify_function("f", of(text, **names))


def differ(text: str, one: Any, other: Any) -> bool:
    """Whether `VALUE` counts. Twice the same value must be the same."""
    first, again, changed = (identified(text, VALUE=value).identity for value in (one, one, other))
    assert first is not None and first == again
    return first != changed


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE.keys())
def test_a_function_that_asks_what_changes_is_never_shown_to_be_the_same(text: str) -> None:
    found = identified(text)
    assert found.identity is None
    assert found.why


def test_it_says_what_the_function_asks() -> None:
    assert identified(UNSURE["the clock"]).why == "reads the clock (datetime.datetime.now)"
    assert identified(UNSURE["dice by its bare name"]).why == "draws at random (random.choice)"
    assert identified(UNSURE["a file"]).why == "reads what is outside while it runs (io.open)"
    unlisted = identified("import platform\ndef f(x): return platform.node()").why
    assert unlisted == "uses platform.node, which is not on twice's list of pure functions"
    assert identified(UNSURE["a lock"]).why == "holds a _thread.lock, which cannot be compared"


def test_a_broadcast_that_a_function_names_is_never_the_same_since_only_its_number_is_pickled() -> None:
    held: Any = Broadcast(path="nowhere")
    held._jbroadcast, held._pickle_registry = SimpleNamespace(id=lambda: 0), set()
    assert identified("def f(x): return VALUE.value + x", VALUE=held) == FunctionIdentity(
        "f", None, "holds a broadcast variable, which cannot be compared"
    )


SURE = {
    "a column of that name": "def f(row): return row.open - row.time",
    "a generator with a seed": "import random\nRNG = random.Random(7)\ndef f(x): return RNG.random(), RNG.choice(x)",
    "a generator that gets its seed": "import random\ndef f(x): return random.Random(x).random()",
    "a method of such a generator": "import random\nDRAW = random.Random(7).choice\ndef f(x): return DRAW(x)",
    "a date from a text": "from datetime import datetime\ndef f(x): return datetime.fromisoformat(x)",
    "an id, imported inside": "def f(x):\n    from uuid import UUID, uuid5\n    return uuid5(UUID(x), x)",
    "a date, imported inside": "def f(x):\n    from datetime import date\n    return date(x, 1, 1)",
    "a date is recognised": "from datetime import date, datetime\ndef f(x): return isinstance(x, (date, datetime))",
    "names of a path": """
        import os
        from pathlib import Path
        def f(x): return Path(x).suffix, os.path.splitext(x), os.sep
    """,
    "what is caught": """
        import socket, sqlite3
        def f(x):
            try: return x
            except (socket.timeout, sqlite3.Error): return 0
    """,
    "much of the library": """
        import base64, collections, decimal, functools, hashlib, itertools, json, logging, math, operator, re
        import statistics, string, struct, time, textwrap, unicodedata, urllib.parse, uuid, zlib, zoneinfo
        LOG = logging.getLogger("x")
        GET = operator.itemgetter(1)
        PATTERN = re.compile("a+")
        NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "x")
        @functools.lru_cache
        def g(x): return hashlib.md5(x).hexdigest() + base64.b64encode(x).decode()
        def f(x):
            LOG.info("seen %s", x)
            time.sleep(0)
            many = collections.Counter(itertools.chain(x, GET(x)))
            return (
                g(x), json.dumps(many), math.floor(x), PATTERN.match(x), re.sub("a", "b", x), decimal.Decimal(x),
                uuid.UUID(x), statistics.mean(x), string.ascii_letters, struct.pack("i", x), textwrap.dedent(x),
                unicodedata.normalize("NFC", x), urllib.parse.urlsplit(x), zlib.crc32(x), zoneinfo.ZoneInfo("UTC"),
                functools.reduce(operator.add, x), print(x), sorted(x, key=len), uuid.uuid5(NAMESPACE, x),
            )
    """,
    "a dataclass, an enum and a named tuple": """
        import enum
        from dataclasses import dataclass, field
        from typing import NamedTuple
        @dataclass(frozen=True, order=True)
        class Rate:
            code: str
            parts: list = field(default_factory=list)
        class Colour(str, enum.Enum):
            RED = "red"
        class Point(NamedTuple):
            x: int
        def f(x): return Rate(Colour("red").value).parts, Point(x)
    """,
}


@pytest.mark.parametrize("text", SURE.values(), ids=SURE.keys())
def test_what_computes_only_with_what_it_is_given_is_shown_to_be_the_same(text: str) -> None:
    first, again = identified(text), identified(text)
    assert first.identity is not None, first.why
    assert first.identity == again.identity


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


def test_an_attribute_of_a_function_counts() -> None:
    def rated(rate: int) -> str | None:
        return identified(f"def f(x): return x * f.rate\nf.rate = {rate}").identity

    assert rated(1) == rated(1) != rated(2)
    assert rated(1) is not None


def test_what_is_registered_for_a_type_counts() -> None:
    dispatching = """
        import functools
        VALUE = None
        @functools.singledispatch
        def g(x): return 0
        @g.register
        def of_int(x: int): return x * VALUE
        class Of:
            @functools.singledispatchmethod
            def it(self, x): return 0
            @it.register
            def _(self, x: int): return x * VALUE
        def f(x): return {}
    """
    assert differ(dispatching.format("g(x)"), 1, 2)
    assert differ(dispatching.format("Of().it(x)"), 1, 2)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """The function `f` of pkg/deep/tasks.py, beside pkg/settings.py."""
    (tmp_path / "pkg" / "deep").mkdir(parents=True)
    for name in ("__init__.py", "deep/__init__.py"):
        (tmp_path / "pkg" / name).touch()
    (tmp_path / "pkg" / "settings.py").write_text("RATE = 1\nOTHER = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(text: str) -> Any:
        (tmp_path / "pkg" / "deep" / "tasks.py").write_text(textwrap.dedent(text))
        for name in [each for each in sys.modules if each.partition(".")[0] == "pkg"]:
            del sys.modules[name]
        return importlib.import_module("pkg.deep.tasks").f

    yield made
    for name in [each for each in sys.modules if each.partition(".")[0] == "pkg"]:
        del sys.modules[name]


INSIDE = {
    "a value": "from ..settings import RATE\n    return x * RATE",
    "the second of two": "from ..settings import OTHER, RATE\n    return x * RATE",
    "a module": "from .. import settings\n    return x * settings.RATE",
    "by its whole name": "import pkg.settings as known\n    return x * known.RATE",
    "by its dotted name": "import pkg.settings\n    return x * pkg.settings.RATE",
}


@pytest.mark.parametrize("text", INSIDE.values(), ids=INSIDE.keys())
def test_what_a_function_imports_inside_counts_and_without_its_being_loaded_it_is_never_the_same(
    package: Callable[[str], Any], text: str
) -> None:
    f = package(f"def f(x):\n    {text}\n")
    assert (
        identify_function("f", f).why
        == "imports pkg.settings only while it runs: what that holds then is not known before"
    )
    settings: Any = importlib.import_module("pkg.settings")
    before = identify_function("f", f).identity
    assert identify_function("f", f).identity == before is not None
    settings.RATE = 2
    assert identify_function("f", f).identity != before


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

    assert identify_function("f", closing([1])).identity == identify_function("f", closing([1])).identity
    assert identify_function("f", closing([1])).identity != identify_function("f", closing([2])).identity
    assert identify_function("f", closing(threading.Lock())).identity is None


def test_another_version_of_a_package_that_it_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlglot

    from twice.engine.code import packages as owners

    def now(version: str) -> str | None:
        owners.version_of.cache_clear()
        monkeypatch.setattr(sqlglot, "__version__", version)
        return identified("import sqlglot\ndef f(x): return sqlglot.parse_one(x).sql()").identity

    found = [now("1.0"), now("1.0"), now("1.1")]
    owners.version_of.cache_clear()
    assert found[0] == found[1] != found[2]


def test_too_much_to_compare_is_never_the_same() -> None:
    assert "too many to compare" in identified("VALUE = None\ndef f(x): return VALUE", VALUE=list(range(300_000))).why


def test_a_ring_of_values_and_functions_ends() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert identified("VALUE = None\ndef f(x): return f(VALUE)", VALUE=ring).identity


def test_a_comment_and_a_docstring_do_not_count(tmp_path: Path) -> None:
    def loaded(name: str, text: str) -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        made = ModuleType(name)
        exec(compile(path.read_text(), str(path), "exec"), made.__dict__)
        return made.__dict__["f"]

    one = loaded("one", "def f(x):\n    return x + 1\n")
    other = loaded("other", 'def f(x):\n    """One more."""\n\n    # really\n    return x + 1\n')
    assert identify_function("f", one).identity == identify_function("f", other).identity is not None


def test_it_is_the_same_in_another_process_whatever_the_order_of_its_sets() -> None:
    program = """
        from twice.engine.code.values import identify_function
        NAMES = {"a", "bb", "ccc", "dddd", frozenset({"x", "y", "z"})}
        def f(x): return x in NAMES or x in {"p", "q", "r"}
        print(identify_function("f", f).identity)
    """

    def found(seed: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(program)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout

    assert found("1") == found("2") != "None\n"


def numbers() -> Iterator[int]:
    yield 1


def test_an_iterator_that_is_half_read_is_never_the_same() -> None:
    assert identified("VALUE = None\ndef f(x): return next(VALUE)", VALUE=numbers()).identity is None
