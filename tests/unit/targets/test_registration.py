"""One line makes a target known: which connections are its own, how it is opened, what its tables may be called."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from twice.config import Settings, load
from twice.core.ports import Target
from twice.core.task import TableName
from twice.errors import DeclarationError
from twice.targets.memory.target import MemoryTarget
from twice.targets.registration import Location, Opening, Registration
from twice.wiring.targets import TARGETS, Targets

ROOT = Path(__file__).parents[3]
TOML = """
project = "myshop"

[connections.toys]
url = "toy://shelf"

[connections.erp]
url = "oracle://me:s3kr1t@erp.example.com/items"

[connections.dsn]
url = "host=localhost dbname=shop"
"""


@dataclass
class ToySystem:
    """Counts what it is asked."""

    opening: Opening
    tables: MemoryTarget = field(default_factory=MemoryTarget)
    released: list[Any] = field(default_factory=list)

    def target(self, session: Any) -> Target:
        return self.tables

    def release(self, session: Any) -> None:
        self.released.append(session)


def check_toy_name(table: TableName) -> None:
    if "." in table.name:
        raise DeclarationError(f"{table}: a toy has one name", fix="Leave out the dot.")


TOY = Registration(
    "toy",
    open=ToySystem,
    location=lambda settings, name: Location(f"./{name}", f"toy://{name}"),
    schemes=("toy",),
    check_name=check_toy_name,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "twice.toml").write_text(TOML)
    return load(tmp_path)


def test_a_target_is_known_by_its_line_in_the_list(settings: Settings) -> None:
    targets = Targets(settings, (*TARGETS, TOY))
    session = object()
    first = targets.of(TableName.parse("toys:ball"), session)
    assert isinstance(first, MemoryTarget)
    assert targets.of(TableName.parse("toys:ball"), object()) is first
    assert targets.location("toys") == Location("./toys", "toy://toys")
    assert targets.folder(TableName.parse("toys:ball")) is None
    with pytest.raises(DeclarationError, match="a toy has one name"):
        targets.of(TableName.parse("toys:shelf.ball"), session)


def test_what_is_open_for_a_session_is_released_in_every_opened_system(settings: Settings) -> None:
    opened: list[ToySystem] = []

    def open_toy(opening: Opening) -> ToySystem:
        opened.append(ToySystem(opening))
        return opened[-1]

    targets = Targets(settings, (Registration("toy", open=open_toy, location=TOY.location, schemes=("toy",)),))
    session = object()
    targets.release(session)
    assert opened == []
    targets.of(TableName.parse("toys:ball"), session)
    targets.release(session)
    (system,) = opened
    assert (system.released, system.opening.name) == ([session], "toys")


def test_a_connection_that_belongs_to_no_target_is_refused_with_the_kinds_that_do(settings: Settings) -> None:
    with pytest.raises(DeclarationError) as refused:
        Targets(settings).of(TableName.parse("erp:shop.items"), object())
    assert str(refused.value) == (
        "erp:shop.items: the connection erp has a URL with oracle://, which belongs to no target. "
        "Known: postgresql://, postgres://, postgresql+psycopg://. Correct url in [connections.erp] of twice.toml."
    )
    assert Targets(settings).location("erp") == Location("erp", "erp")


def test_a_connection_without_a_scheme_is_a_server_of_postgresql(settings: Settings) -> None:
    assert Targets(settings).location("dsn").here == "postgresql://localhost/shop"


def test_delta_and_memory_need_no_connection_and_take_other_frames(settings: Settings) -> None:
    with pytest.raises(DeclarationError, match="there is no table system or connection 'memory'") as refused:
        Targets(settings).of(TableName.parse("memory:shop.orders"), object())
    assert "Known: delta:, dsn:, erp:, toys:" in refused.value.fix
    target = Targets(settings, frames="rows").of(TableName.parse("memory:shop.orders"), object())
    assert isinstance(target, MemoryTarget)


def test_only_delta_tables_have_a_folder_that_a_proof_can_copy(settings: Settings) -> None:
    targets = Targets(settings)
    assert targets.folder(TableName.parse("shop.orders")) == str(settings.warehouse / "shop" / "orders")
    assert targets.folder(TableName.parse("dsn:shop.orders")) is None
    assert targets.folder(TableName.parse("nobody:shop.orders")) is None


def test_the_list_imports_no_driver() -> None:
    heavy = ("pyspark", "psycopg", "adbc_driver_postgresql", "pyarrow")
    code = f"import sys, twice.wiring.targets; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("registration", TARGETS, ids=lambda each: each.format)
def test_each_target_is_one_folder_one_contract_test_and_its_documentation(
    registration: Registration,
) -> None:
    name = registration.format
    assert (ROOT / "src" / "twice" / "targets" / name / "registration.py").is_file()
    suite = (ROOT / "tests" / "contracts" / f"test_{name}_target.py").read_text(encoding="utf-8")
    assert "TargetSuite" in suite
    assert f"targets/{name}/" in (ROOT / "docs" / "adding-a-target.md").read_text(encoding="utf-8")
    if registration.schemes:  # users write its connections into twice.toml, and must read somewhere what they take
        assert (ROOT / "docs" / f"{name}.md").is_file()
