"""The Java that Spark would start, found the way Spark's own scripts find it; and the packages we name in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.errors import EnvironmentProblem

OLDEST = 17
INSTALL = "Install it: apt-get install openjdk-17-jre-headless (Debian, Ubuntu) or brew install openjdk@17 (macOS)."

_PACKAGES = (
    "java.io",
    "java.lang.reflect",
    "java.net",
    "java.nio.file.attribute",
    "org.apache.commons.io",
    "org.apache.commons.lang3",
    "org.apache.hadoop.fs",
    "org.apache.spark.sql.catalyst.expressions",
    "org.apache.spark.sql.catalyst.trees",
    "org.apache.spark.sql.delta.util",
    "scala.collection.immutable",
    "scala.jdk.javaapi",
)


@dataclass(frozen=True)
class Java:
    """`build` distinguishes one build of one JDK from any other: a class-data archive belongs to exactly one."""

    program: Path
    version: str
    build: str

    @property
    def major(self) -> int:
        return _major(self.version)


def find_java() -> Java:
    """The Java of JAVA_HOME, else the one on PATH; EnvironmentProblem if there is none Spark can use."""
    java = _inspect(_program())
    if java.major < OLDEST:
        raise EnvironmentProblem(
            f"Java {java.version} ({java.program}) is too old: Spark 4 needs Java {OLDEST} or newer",
            fix=f"{INSTALL} Then point JAVA_HOME to it.",
        )
    return java


def _program() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise EnvironmentProblem(
                f"JAVA_HOME is {home}, and there is no bin/java in it", fix="Correct JAVA_HOME, or unset it."
            )
        return program
    found = shutil.which("java")
    if found is None:
        raise EnvironmentProblem("Java is missing: Spark runs on it", fix=INSTALL)
    return Path(found)


def _inspect(program: Path) -> Java:
    # The release file beside the program saves starting a JVM just to ask it for its version.
    release = program.resolve().parent.parent / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="?([^"\n]+)', text, re.MULTILINE)
    if version:
        return Java(program, version[1], f"{release}\n{text}")
    return _ask(program)


def _ask(program: Path) -> Java:
    try:
        ran = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{program} cannot be started ({error})", fix=INSTALL) from error
    version = re.search(r"java\.version = (\S+)", ran.stderr)
    if ran.returncode or version is None:
        # On macOS /usr/bin/java exists without any Java behind it.
        raise EnvironmentProblem(f"{program} does not work as Java", fix=INSTALL)
    build = sorted(re.findall(r"java\.(?:home|vm\.version|vm\.vendor) = (.+)", ran.stderr))
    return Java(program, version[1], "\n".join(build))


def _major(version: str) -> int:
    # 1.8.0_292 was the last of the old numbering.
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def remember_packages(jvm: Any) -> None:
    """Keep the packages we name as attributes of py4j's view of the JVM. A second call does nothing.

    py4j takes `jvm.org.apache.hadoop.fs.Path` part by part and asks the JVM whether `org` is a class, then
    `org.apache`, and so on. Each no is a search through every jar of Spark: some milliseconds for one dotted name."""
    for dotted in _PACKAGES:
        at = jvm
        for part in dotted.split("."):
            if part not in vars(at):
                setattr(at, part, getattr(at, part))
            at = vars(at)[part]
