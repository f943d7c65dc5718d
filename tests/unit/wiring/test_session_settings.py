"""What a project starts Spark with."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.config import load
from twice.wiring.open_project import session_settings


@pytest.mark.parametrize(("variables", "archive"), [({}, "make"), ({"CI": "true"}, "use")])
def test_no_class_data_archive_is_made_where_ci_throws_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], archive: str
) -> None:
    (tmp_path / "twice.toml").write_text('project = "shop"\n')
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert session_settings(load(tmp_path)).archive == archive
