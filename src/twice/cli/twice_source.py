"""Where a new project gets its twice from: what its user names, or what this twice was installed from."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from twice.core.names.reference import HIDDEN, hide_passwords
from twice.errors import UsageError

_WHEEL = re.compile(r"twice-[0-9][A-Za-z0-9_.!+]*-[a-z0-9_.]+-[a-z0-9_.]+-[a-z0-9_.]+\.whl")
_CREDENTIAL = re.compile(r"(?<=https://)[^/@]+(?=@[^/]+/)")
_GIT = re.compile(r"git\+(https|ssh|file)://[^\s\"'\\#;$`]+")


@dataclass(frozen=True)
class Wheel:
    """A file that the new project gets a copy of, so that it installs wherever the project is checked out."""

    file: Path

    def __str__(self) -> str:
        return str(self.file)


@dataclass(frozen=True)
class GitReference:
    url: str

    def __str__(self) -> str:
        return self.url


Source = Wheel | GitReference | None
"""None: nobody has said, and the installation does not tell."""


def source_of(text: str) -> Wheel | GitReference:
    """What `--twice-from` names. Never a bare name: an index would answer it with somebody else's package."""
    shown = _CREDENTIAL.sub(HIDDEN, hide_passwords(text))
    if shown != text:
        raise UsageError(
            f"--twice-from {shown} holds a secret, and would be written to pyproject.toml",
            now="Nothing was written.",
            fix="Leave it out: git asks its credential helper, and CI has a token of its own.",
        )
    if _GIT.fullmatch(text):
        return GitReference(text)
    file = Path(text).expanduser()
    if _WHEEL.fullmatch(file.name) and file.is_file():
        return Wheel(file)
    raise UsageError(
        f"--twice-from {text} is neither a wheel of twice that exists nor a git reference",
        now="Nothing was written.",
        fix="Give the path of twice-….whl, or git+https://host/path@tag.",
    )


def installed_source(package: Path) -> Source:
    """The wheel or commit that the twice in this folder was installed from, as its installer wrote it down (PEP 610).

    None where another machine could not install from there: a checkout, a repository on this disk, a wheel that is gone
    or is another one by now.
    """
    try:
        found = Distribution.from_name("twice")
    except PackageNotFoundError:
        return None
    if Path(str(found.locate_file("twice"))).resolve() != package.resolve():
        return None  # the twice that runs is not the one that this record is about
    return recorded_source(found.read_text("direct_url.json"))


def recorded_source(record: str | None) -> Source:
    """What the text of a `direct_url.json` names."""
    try:
        match json.loads(record or "{}"):
            case {"subdirectory": _}:
                return None
            case {"url": str(url), "vcs_info": {"vcs": "git", "commit_id": str(commit)}} if not _is_local(url):
                return source_of(f"git+{url}@{commit}")
            case {"url": str(url), "archive_info": dict(archive)} if _is_local(url):
                named = source_of(unquote(urlsplit(url).path))
                return named if isinstance(named, Wheel) and _is_unchanged(named.file, _sha256_of(archive)) else None
            case _:
                return None
    except (ValueError, OSError, UsageError):
        return None  # a record that we do not understand: `init` then says what to name


def _is_local(url: str) -> bool:
    return url.startswith("file:")


def _sha256_of(archive: Mapping[str, Any]) -> str:
    match archive:
        case {"hashes": {"sha256": str(found)}}:
            return found
        case {"hash": str(found)}:  # pip before 23.1
            return found.removeprefix("sha256=")
        case _:
            return ""


def _is_unchanged(file: Path, sha256: str) -> bool:
    """uv records no hash: then the file's name, which holds the version, has to do."""
    return not sha256 or hashlib.sha256(file.read_bytes()).hexdigest() == sha256
