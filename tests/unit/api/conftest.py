"""A project without Spark, for what the verbs say before they need one."""

from __future__ import annotations

from pathlib import Path

import pytest

PIPELINE = """
from twice import Daily, Whole, replace, task

@task("shop.revenue", scope=Daily("day", start="2026-06-01"), inputs={}, write=replace())
def revenue(run): ...

@task("shop.all", scope=Whole(), inputs={}, write=replace())
def everything(): ...
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "tasks.py").write_text(PIPELINE)
    (tmp_path / "twice.toml").write_text('project = "p"\n[profiles.prod]\nenvironment = "prod"\n')
    return tmp_path
