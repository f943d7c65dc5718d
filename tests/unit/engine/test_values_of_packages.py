"""Functions of installed packages: what they hold counts, and the task's own package is looked into."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from twice.engine.code import packages as owners
from twice.engine.code.modules import home_of
from twice.engine.code.values import identify_function

PACKAGE = """
__version__ = "1.0"
RATE = 1
def converter(rate):
    def convert(x): return x * rate
    return convert
def converter_by_default(rate):
    def convert(x, rate=rate, *, more=rate): return x * rate * more
    return convert
def converter_by_attribute(rate):
    def convert(x): return x * convert.rate
    convert.rate = rate
    return convert
def of_global(x): return x * RATE
class Scale:
    @staticmethod
    def of(x): return x * RATE
def through_a_class(x): return Scale.of(x)
def through_another_file(x):
    from companylib import rates
    return rates.of(x)
def task(orders): return orders
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """As pip leaves it: in a folder called site-packages."""
    folder = tmp_path / "site-packages" / "companylib"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "rates.py").write_text("RATE = 1\ndef of(x): return x * RATE\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    yield importlib.import_module("companylib")
    for name in ("companylib", "companylib.rates"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("factory", ["converter", "converter_by_default", "converter_by_attribute"])
def test_what_a_function_holds_counts_though_an_installed_package_made_it(package: ModuleType, factory: str) -> None:
    made: Callable[[int], object] = getattr(package, factory)
    first, again, other = (identify_function("f", made(rate)).identity for rate in (1, 1, 2))
    assert first == again != other
    assert first is not None


@pytest.mark.parametrize("name", ["of_global", "through_a_class", "through_another_file"])
def test_the_package_that_the_task_itself_is_in_counts_like_a_project_though_it_is_installed(
    package: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = importlib.import_module("companylib.rates")
    home = home_of(package.task)
    before = identify_function("f", getattr(package, name), home).identity
    assert identify_function("f", getattr(package, name), home).identity == before is not None
    monkeypatch.setattr(package, "RATE", 2)
    monkeypatch.setattr(rates, "RATE", 2)
    assert identify_function("f", getattr(package, name), home).identity != before


def test_another_installed_package_is_its_version(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identify_function("f", package.of_global).identity
    monkeypatch.setattr(package, "RATE", 2)
    assert identify_function("f", package.of_global).identity == before is not None


def test_a_function_that_calls_what_lies_beneath_another_udf_counts_that_one_by_its_own_code() -> None:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType

    def calling(factor: int) -> Callable[[int], int]:
        other = sf.udf(lambda x: x * factor, LongType())
        return lambda x: int(other.func(x))

    first, again, changed = (identify_function("f", calling(factor)) for factor in (1, 1, 2))
    assert first.identity == again.identity != changed.identity
    assert first.identity is not None, first.why


def installed(folder: Path, name: str, text: str) -> None:
    path = folder / "site-packages" / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "__init__.py").write_text(text)


ASKING = {
    "from pandas_like import read_csv\ndef f(x): return read_csv(x)": "reads what is outside while it runs",
    "def f(x):\n    import pandas_like as pd\n    return pd.read_csv(x)": "reads what is outside while it runs",
    "import pandas_like as pd\ndef f(x): return pd.Stamp.now()": "reads the clock",
    "import pandas_like as pd\ndef f(x):\n    stamp = pd.Stamp\n    return stamp.now()": "reads the clock",
    "from requests import Session\nSESSION = Session()\ndef f(x): return SESSION.get(x)": "reads what is outside",
    """from requests import Session
SESSION = Session()
def g(session, x): return session.get(x)
def f(x): return g(SESSION, x)""": "reads what is outside",
    "def f(x):\n    import requests\n    return requests.get(x)": "reads what is outside",
    "import numpy\ndef f(x): return numpy.random.default_rng().normal()": "draws at random",
    "import numpy\ndef f(x): return numpy.datetime64('now')": "reads the clock",
    "import numpy\nfrom numpy.random import default_rng\ndef f(x): return default_rng()": "draws at random",
}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand-ins for what a project may have installed."""
    installed(tmp_path, "pandas_like", "def read_csv(x): ...\nclass Stamp:\n    @classmethod\n    def now(cls): ...\n")
    installed(tmp_path, "requests", "def get(x): ...\nclass Session:\n    def get(self, x): ...\n")
    installed(tmp_path, "numpy", "from . import random\nclass datetime64: ...\ndef array(x): ...\n")
    installed(tmp_path, "numpy/random", "from ._generator import default_rng\n")
    (tmp_path / "site-packages" / "numpy" / "random" / "_generator.py").write_text("def default_rng(seed=None): ...\n")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def made(text: str) -> Callable[..., object]:
    module = ModuleType("from_a_test")
    exec(compile(text, "<test>", "exec", dont_inherit=True), module.__dict__)
    found: Callable[..., object] = module.__dict__["f"]
    return found


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("text", "why"), ASKING.items())
def test_what_is_known_to_ask_in_an_installed_package_is_never_the_same(text: str, why: str) -> None:
    found = identify_function("f", made(text))
    assert found.identity is None
    assert found.why.startswith(why)


@pytest.mark.usefixtures("packages")
def test_an_installed_package_counts_by_its_version_and_one_that_is_not_there_is_never_the_same() -> None:
    sure = "import numpy\ndef f(x): return numpy.array(x), numpy.random.default_rng(7), x.open, x['now_at']"
    assert identify_function("f", made(sure)).identity is not None
    assert identify_function(
        "f", made("from numpy.random import default_rng\ndef f(x): return default_rng(x)")
    ).identity
    missing = identify_function(
        "f", made("def f(x):\n    import nowhere_to_be_found\n    return nowhere_to_be_found.of(x)")
    )
    assert (missing.identity, missing.why) == (None, "imports nowhere_to_be_found, which is not found here")


def test_a_function_of_the_project_may_be_called_read_or_now() -> None:
    text = "def read_rates(x): return x\ndef now(x): return x\ndef f(x): return read_rates(now(x))"
    assert identify_function("f", made(text)).identity is not None


def test_of_a_folder_that_several_distributions_fill_the_versions_of_all_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(storage: str) -> str:
        for name, number in (("filled-core", "1.0"), ("filled-storage", storage)):
            part = name.partition("-")[2]
            (tmp_path / "filled" / part).mkdir(parents=True, exist_ok=True)
            (tmp_path / "filled" / part / "__init__.py").touch()
            about = tmp_path / f"{name.replace('-', '_')}-0.dist-info"
            about.mkdir(exist_ok=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
            (about / "RECORD").write_text(f"filled/{part}/__init__.py,,\n")
        forget()
        return owners.version_of("filled.storage")

    def forget() -> None:
        owners.version_of.cache_clear()
        owners._distributions.cache_clear()
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(str(tmp_path))
    assert (version("1.0"), version("1.1")) == (
        "filled-core 1.0 filled-storage 1.0",
        "filled-core 1.0 filled-storage 1.1",
    )
    forget()
