"""The first hour, as far as it needs no network and no minutes: `make test-first-hour` is the whole of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.first_hour.new_user import built
from typer.testing import CliRunner

from twice.cli.main import app

from .conftest import Shop

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith("twice-")}
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    assert packed == {name for name in files if "__pycache__" not in name}


def test_from_the_wheel_a_project_is_made_looked_at_and_linted(wheel: Path, tmp_path: Path) -> None:
    """As installed: from the wheel's own files, none of this checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}

    def twice(*words: str, at: Path = tmp_path) -> str:
        command = [sys.executable, "-m", "twice", *words]
        done = subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    twice("init", "shop", "--twice-from", str(wheel))
    shop = tmp_path / "shop"
    assert (shop / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    assert "no problems found" in twice("doctor", at=shop)
    assert twice("lint", "pipelines", at=shop)


def test_a_delta_project_publishes_once_and_finds_it_published(tmp_path: Path, spark: Any) -> None:
    shop = Shop(tmp_path / "myshop")
    assert CliRunner().invoke(app, ["init", str(shop.root)]).exit_code == 0
    _publishes_once(shop)


def test_a_postgres_project_publishes_once_and_finds_it_published(
    tmp_path: Path, spark: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path / "myshop")
    assert CliRunner().invoke(app, ["init", str(shop.root), "--template", "postgres"]).exit_code == 0
    monkeypatch.setenv("SHOP_URL", database)
    _publishes_once(shop)


def _publishes_once(shop: Shop) -> None:
    first = shop.call("run", "--all", "--date", "2026-06-09")
    assert first.code == 0, first.err
    assert "2 of 2 tasks are done" in first.out
    again = shop.call("run", "--all", "--date", "2026-06-09")
    assert again.out.count("already published") == 2
    assert "IDENTICAL" in shop.call("restate", "revenue_daily", "--date", "2026-06-09").out


@pytest.mark.long
def test_the_new_projects_own_tests_are_green(tmp_path: Path) -> None:
    root = tmp_path / "myshop"
    assert CliRunner().invoke(app, ["init", str(root)]).exit_code == 0
    options = ["-q", "--twice-scenario=twice", "--twice-report=proof", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert json.loads((root / "proof" / "proof.json").read_text())["proofs"][0]["holds"]
