"""What `twice init` writes, and what it never does: replace a file, or name a package of an index."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from twice.cli import new_project
from twice.cli.main import app
from twice.cli.new_project import ProjectTemplate
from twice.cli.twice_source import GitReference, Wheel, recorded_source
from twice.config import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WHEEL = "twice-0.1.0-py3-none-any.whl"
GIT = "git+https://git.example.com/data/twice@v0.1.0"


def init(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["init", str(folder), *options])


def pyproject(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())
    return found


def workflow(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / ".github/workflows/ci.yml").read_text())
    return found


def commands(folder: Path) -> list[str]:
    return [step["run"] for step in workflow(folder)["jobs"]["test"]["steps"] if "run" in step]


@pytest.mark.parametrize("template", ProjectTemplate)
def test_every_template_is_whole_and_has_no_mark_left(template: ProjectTemplate, tmp_path: Path) -> None:
    folder = tmp_path / "myshop"
    made = init(folder, "--template", template.value, "--twice-from", GIT)
    assert made.exit_code == 0, made.stderr
    files = {path for path in folder.rglob("*") if path.is_file()}
    assert {path.relative_to(folder).as_posix() for path in files} == {
        *(".github/workflows/ci.yml", ".gitignore", ".pre-commit-config.yaml", "README.md", "pyproject.toml"),
        *(f"data/2026-06-{day}.csv" for day in ("08", "09", "10", "11")),
        *("pipelines/orders.py", "pipelines/revenue_daily.py", "twice.toml"),
        *("tests/conftest.py", "tests/test_revenue_daily.py"),
    }
    for path in files:
        text = path.read_text()
        assert not re.search(r"@[A-Z_]+@|\.tmpl|\n\n\n\n|[ ]\n", text), path
        if path.suffix == ".py":
            ast.parse(text)
    assert load(folder).project == "myshop"
    assert pyproject(folder)["project"]["name"] == "myshop"


def test_the_next_command_is_the_last_line_and_json_names_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    assert init(folder, "--twice-from", GIT).stdout.splitlines() == [
        f"shop: 14 files written to {folder}",
        f"next: cd {folder} && twice run --all --date 2026-06-09",
    ]
    data = json.loads(init(tmp_path / "other", "-o", "json").stdout)
    assert data["project"] == "other" and str(tmp_path / "other" / "twice.toml") in data["files"]


def test_a_git_reference_is_the_projects_only_source_of_twice(tmp_path: Path) -> None:
    init(tmp_path / "shop", "--twice-from", GIT)
    assert pyproject(tmp_path / "shop")["project"]["dependencies"] == [f"twice[spark] @ {GIT}"]
    assert commands(tmp_path / "shop") == ['pip install ".[test]"', "twice lint pipelines", "pytest"]


def test_a_wheel_is_copied_into_the_project_and_named_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(b"zip")
    init(tmp_path / "shop", "--template", "postgres", "--twice-from", str(tmp_path / WHEEL))
    assert (tmp_path / "shop" / "wheels" / WHEEL).read_bytes() == b"zip"
    named = f"twice[spark,postgres] @ {{root:uri}}/wheels/{WHEEL}"
    assert pyproject(tmp_path / "shop")["project"]["dependencies"] == [named]


def test_without_a_source_twice_is_not_asked_of_an_index_and_ci_has_one_marked_place(tmp_path: Path) -> None:
    made = init(tmp_path / "shop")
    assert f"its CI fails until {tmp_path}/shop/.github/workflows/ci.yml says where twice comes from" in made.stdout
    assert "if you give it --twice-from, a wheel or git+https://…@tag" in made.stdout
    assert pyproject(tmp_path / "shop")["project"]["dependencies"] == []
    assert (tmp_path / "shop" / ".github/workflows/ci.yml").read_text().count("FILL IN") == 1
    assert commands(tmp_path / "shop")[0].endswith("&& exit 1")
    assert 'pip install "twice[spark] @ git+https://' in (tmp_path / "shop" / "README.md").read_text()


def test_the_wheel_that_this_twice_was_installed_from_is_the_projects_if_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "my dist" / WHEEL
    wheel.parent.mkdir()
    wheel.write_bytes(b"zip")
    hashes = {"sha256": hashlib.sha256(b"zip").hexdigest()}
    record = {"url": wheel.as_uri(), "archive_info": {"hashes": hashes}}
    monkeypatch.setattr(new_project, "PACKAGE", installed(tmp_path / "site-packages", record))
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    made = init(tmp_path / "shop")
    assert f"its CI installs twice from {wheel}, as here; --twice-from names another place" in made.stdout
    assert pyproject(tmp_path / "shop")["project"]["dependencies"] == [f"twice[spark] @ {{root:uri}}/wheels/{WHEEL}"]
    assert (tmp_path / "shop" / "wheels" / WHEEL).read_bytes() == b"zip"
    assert json.loads(init(tmp_path / "other", "-o", "json").stdout)["twice_from"] == str(wheel)


def test_the_record_of_another_twice_than_the_one_that_runs_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name on an index is somebody else's: it may be installed where this one runs from a checkout."""
    record = {"url": "https://git.example.com/strange/twice", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}
    installed(tmp_path / "site-packages", record)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    init(tmp_path / "shop")
    assert pyproject(tmp_path / "shop")["project"]["dependencies"] == []


def installed(folder: Path, record: dict[str, Any]) -> Path:
    """What an installer leaves there. The package's folder."""
    (folder / "twice").mkdir(parents=True)
    (folder / "twice-0.1.0.dist-info").mkdir()
    (folder / "twice-0.1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: twice\nVersion: 0.1.0\n")
    (folder / "twice-0.1.0.dist-info" / "direct_url.json").write_text(json.dumps(record))
    return folder / "twice"


COMMIT = "2f4c" * 10
OF_GIT = {"vcs_info": {"vcs": "git", "commit_id": COMMIT, "requested_revision": "main"}}


@pytest.mark.parametrize("host", ["https://git.example.com/data/twice.git", "ssh://git@git.example.com/data/twice.git"])
def test_of_a_branch_that_was_installed_the_project_names_the_commit(host: str) -> None:
    assert recorded_source(json.dumps({"url": host, **OF_GIT})) == GitReference(f"git+{host}@{COMMIT}")


@pytest.mark.parametrize("archive", [{}, {"hash": "sha256=" + hashlib.sha256(b"zip").hexdigest()}])
def test_a_wheel_is_known_also_from_installers_that_record_less(archive: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(b"zip")
    record = {"url": (tmp_path / WHEEL).as_uri(), "archive_info": archive}
    assert recorded_source(json.dumps(record)) == Wheel(tmp_path / WHEEL)


@pytest.mark.parametrize(
    "record",
    [
        {"url": "file:///home/me/twice", "dir_info": {"editable": True}},
        {"url": "file:///home/me/twice", **OF_GIT},  # no other machine has this repository
        {"url": "https://ghp_hunter2@git.example.com/data/twice", **OF_GIT},
        {"url": "https://git.example.com/all", **OF_GIT, "subdirectory": "twice"},
        {"url": f"file:///gone/{WHEEL}", "archive_info": {}},
        {"url": "{here}", "archive_info": {"hashes": {"sha256": "0" * 64}}},  # built again since
        {"url": f"https://files.example.com/{WHEEL}", "archive_info": {}},
        {"url": "file:///home/me/twice-0.1.0.tar.gz", "archive_info": {}},
        ["no", "record"],
    ],
)
def test_what_another_machine_could_not_install_from_is_no_source(record: object, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(b"zip")
    text = json.dumps(record).replace("{here}", (tmp_path / WHEEL).as_uri())
    assert recorded_source(text) is None
    assert recorded_source("not JSON") is None
    assert recorded_source(None) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("twice", "neither a wheel of twice that exists nor a git reference"),
        ("twice==0.1.0", "neither a wheel of twice"),
        ("other-1.0-py3-none-any.whl", "neither a wheel of twice"),
        (WHEEL, "neither a wheel of twice"),  # there is no such file
        ('git+https://h/twice" && rm -rf', "neither a wheel of twice"),
        ("git+https://me:hunter2@h/twice", "--twice-from git+https://***@h/twice holds a secret"),
        ("git+https://ghp_hunter2@h/twice", "--twice-from git+https://***@h/twice holds a secret"),
    ],
)
def test_a_source_that_cannot_be_is_refused_before_anything_is_written(given: str, says: str, tmp_path: Path) -> None:
    refused = init(tmp_path / "shop", "--twice-from", given)
    assert refused.exit_code == 2
    assert says in refused.stderr and "Nothing was written." in refused.stderr and "hunter2" not in refused.stderr
    assert not (tmp_path / "shop").exists()


def test_a_file_that_is_there_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "README.md").write_text("mine")
    refused = init(tmp_path / "shop")
    assert refused.exit_code == 2
    assert "already has README.md" in refused.stderr and "Nothing was written." in refused.stderr
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["README.md"]
    assert (tmp_path / "shop" / "README.md").read_text() == "mine"


def test_a_folder_with_other_files_gets_a_project_beside_them(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "LICENSE").write_text("mine")
    assert init(tmp_path / "shop").exit_code == 0
    assert (tmp_path / "shop" / "LICENSE").read_text() == "mine"


def test_a_folder_whose_name_names_no_project_is_refused(tmp_path: Path) -> None:
    refused = init(tmp_path / "2 shops")
    assert refused.exit_code == 2 and "'2 shops' cannot name a project" in refused.stderr
