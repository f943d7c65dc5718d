"""Connections by name: read from twice.toml, secret until they are used, distinguished from table systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.config import explain, load
from twice.core.task import TableName
from twice.errors import DeclarationError
from twice.wiring.targets import Targets

TOML = """
project = "myshop"

[connections.postgres]
url = "${env:SHOP_URL}"
lock_seconds = 5

[connections.erp]
url = "postgresql://me:s3kr1t@erp.example.com/items"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "twice.toml").write_text(TOML)
    return tmp_path


def test_a_connection_has_its_url_and_limits(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(project)
    monkeypatch.setenv("SHOP_URL", "postgresql://me@localhost/shop")
    shop, erp = settings.connections["postgres"], settings.connections["erp"]
    assert shop.url.reveal() == "postgresql://me@localhost/shop"
    assert (shop.lock_seconds, erp.lock_seconds, erp.task_connections) == (5, 60, 8)


def test_a_variable_that_is_not_set_is_reported_where_it_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_URL", raising=False)
    with pytest.raises(
        DeclarationError, match=r"twice.toml: connections.postgres.url: the environment variable SHOP_URL is not set"
    ):
        Targets(load(project)).of(TableName.parse("postgres:shop.orders"), _Session())


def test_a_password_is_not_shown(project: Path) -> None:
    shown = {each.name: each.value for each in explain(load(project))}
    assert shown["connections.postgres.url"] == "${env:SHOP_URL}"
    assert shown["connections.erp.url"] == "postgresql://me:***@erp.example.com/items"
    assert "s3kr1t" not in repr(load(project))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lock_second = 5", "unknown setting 'connections.erp.lock_second'"),
        ("lock_seconds = -1", "connections.erp.lock_seconds is wrong"),
        ("task_connections = 0", "connections.erp.task_connections is wrong"),
    ],
)
def test_a_wrong_setting_is_reported_by_its_name(project: Path, line: str, message: str) -> None:
    (project / "twice.toml").write_text(TOML + line)
    with pytest.raises(DeclarationError, match=message):
        load(project)


def test_a_connection_without_a_url_is_refused(project: Path) -> None:
    (project / "twice.toml").write_text(TOML + "\n[connections.empty]\n")
    with pytest.raises(DeclarationError, match=r"connections\.empty\.url"):
        load(project)


def test_a_name_that_is_no_connection_is_reported_with_the_known_ones(project: Path) -> None:
    with pytest.raises(DeclarationError, match="there is no table system or connection 'oracle'") as refused:
        Targets(load(project)).of(TableName.parse("oracle:shop.orders"), _Session())
    assert "delta:, erp:, postgres:" in refused.value.fix
    assert "[connections.oracle]" in refused.value.fix


class _Session:
    """Stands for a run's session: nothing is asked of it before the name is known."""
