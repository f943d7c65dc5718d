"""Finding Java, and saying what to do where there is none that Spark can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.engine.session.java import find_java
from twice.errors import EnvironmentProblem


def java_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_java_of_java_home_is_found_without_starting_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "jdk", "21.0.3")
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = find_java()
    assert (java.program, java.version, java.major) == (home / "bin" / "java", "21.0.3", 21)


def test_without_java_home_the_path_is_searched_and_links_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home(tmp_path / "jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java().version == "17.0.1"


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16"])
def test_an_old_java_is_refused_with_the_command_that_installs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", version)))
    with pytest.raises(EnvironmentProblem, match=rf"Java {version} .* is too old.*apt-get install openjdk-17"):
        find_java()


def test_no_java_is_one_sentence_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=r"Java is missing.*apt-get install .*brew install openjdk@17"):
        find_java()


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(EnvironmentProblem, match=r"JAVA_HOME is .*gone.*no bin/java"):
        find_java()


def test_a_java_that_is_only_a_stub_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "jdk", "17")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EnvironmentProblem, match="does not work as Java"):
        find_java()


def test_a_java_without_a_release_file_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "jdk", "17")
    (home / "release").unlink()
    output = "    java.home = /opt/jdk\\n    java.version = 18.0.2\\n    java.vm.version = 18+1\\n"
    (home / "bin" / "java").write_text(f"#!/bin/sh\nprintf '{output}' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = find_java()
    assert java.major == 18
    assert "18+1" in java.build
