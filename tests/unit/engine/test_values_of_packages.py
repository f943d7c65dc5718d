"""Functions of installed packages: what they hold counts, and the task's own package is looked into."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from twice.engine.modules import home_of
from twice.engine.values import worked_out

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
    first, again, other = (worked_out("f", made(rate)).identity for rate in (1, 1, 2))
    assert first == again != other
    assert first is not None


@pytest.mark.parametrize("name", ["of_global", "through_a_class", "through_another_file"])
def test_the_package_that_the_task_itself_is_in_counts_like_a_project_though_it_is_installed(
    package: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = importlib.import_module("companylib.rates")
    home = home_of(package.task)
    before = worked_out("f", getattr(package, name), home).identity
    assert worked_out("f", getattr(package, name), home).identity == before is not None
    monkeypatch.setattr(package, "RATE", 2)
    monkeypatch.setattr(rates, "RATE", 2)
    assert worked_out("f", getattr(package, name), home).identity != before


def test_another_installed_package_is_its_version(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = worked_out("f", package.of_global).identity
    monkeypatch.setattr(package, "RATE", 2)
    assert worked_out("f", package.of_global).identity == before is not None


def test_a_function_that_calls_what_lies_beneath_another_udf_counts_that_one_by_its_own_code() -> None:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType

    def calling(factor: int) -> Callable[[int], int]:
        other = sf.udf(lambda x: x * factor, LongType())
        return lambda x: int(other.func(x))  # type: ignore[attr-defined]

    first, again, changed = (worked_out("f", calling(factor)) for factor in (1, 1, 2))
    assert first.identity == again.identity != changed.identity
    assert first.identity is not None, first.why
