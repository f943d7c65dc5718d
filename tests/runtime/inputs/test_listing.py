"""Which files a pattern names: what there is, each once, and nothing that is still on its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.errors import DeclarationError, InputMissing
from twice.runtime.inputs.listing import list_files
from twice.runtime.inputs.places import Places

FILES = ("a.csv", "b.CSV", "x/a.csv", "x/y/a.csv", "x/_SUCCESS", "x/.a.csv.crc", "x/_temporary/0/a.csv", "x=1/[b].csv")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    return tmp_path


def named(root: Path, pattern: str) -> list[str]:
    return [file.path for file in list_files(pattern, Places(root))]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("in/*.csv", ["in/a.csv"]),
        ("in/a.csv", ["in/a.csv"]),
        ("in/*.txt", []),
        ("other/*.csv", []),
        ("in/a.csv/b.csv", []),
        ("in/x", ["in/x/a.csv", "in/x/y/a.csv"]),
        ("in/x/", ["in/x/a.csv", "in/x/y/a.csv"]),
        ("in/**/a.csv", ["in/a.csv", "in/x/a.csv", "in/x/y/a.csv"]),
        ("in/x*/*", ["in/x/a.csv", "in/x/y/a.csv", "in/x=1/[b].csv"]),
        ("in/[a-b].[cC]*", ["in/a.csv", "in/b.CSV"]),
        ("in/?.csv", ["in/a.csv"]),
        ("./in//a.csv", ["in/a.csv"]),
    ],
)
def test_a_pattern_names_files(root: Path, pattern: str, found: list[str]) -> None:
    assert sorted(named(root, pattern)) == sorted(found)


def test_a_file_is_listed_once_however_often_it_is_named(root: Path) -> None:
    (root / "in/x/z").symlink_to(root / "in/x")  # a ring
    assert named(root, "in/x") == ["in/x/a.csv", "in/x/y/a.csv"]


def test_size_and_time_are_those_of_the_file(root: Path) -> None:
    (file,) = list_files("in/a.csv", Places(root))
    stat = (root / "in/a.csv").stat()
    assert (file.size, file.modified, file.place) == (5, stat.st_mtime_ns, str(root / "in/a.csv"))


def test_a_file_that_spark_cannot_open_is_refused_before_it_is_tried(root: Path) -> None:
    (root / "in/12:30.csv").write_text("")
    with pytest.raises(DeclarationError, match="Spark cannot read a file with a colon in its name. Rename it"):
        list_files("in/*.csv", Places(root))


def test_a_folder_that_cannot_be_listed_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a user who may list everything."""

    def refused(self: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(InputMissing, match="in cannot be listed: Permission denied"):
        list_files("in/*.csv", Places(root))
