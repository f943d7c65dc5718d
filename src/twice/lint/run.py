"""The one use case: read the files, link them, run the rules, leave out what was silenced or accepted."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from twice.errors import UsageError
from twice.lint import baseline as baselines
from twice.lint import cache
from twice.lint.adjust import CODE as UNUSED
from twice.lint.adjust import applied, raised
from twice.lint.file_facts import FileFacts, Notice, ProjectFacts
from twice.lint.finding import RANK, Finding, LintResult
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.dbt_project import fingerprint
from twice.lint.frontends.reader import SUFFIXES, read
from twice.lint.project import linked
from twice.lint.rules import Rule, chosen
from twice.lint.settings import LintSettings
from twice.lint.source import LARGEST, decoded, role_of

_SKIPPED = {
    ".git", ".venv", "venv", "env", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox",
    "site-packages",
            "dbt_packages", "dbt_modules", ".ipynb_checkpoints", ".eggs", "build", "dist"}  # fmt: skip
_FEW = 24
"""Below this many files a second process costs more than it saves."""


@dataclass(frozen=True)
class _Job:
    shown: str
    file: str
    below: str
    """The path below the folder that was given: it decides the file's role."""


def lint_paths(paths: Iterable[Path | str], settings: LintSettings, baseline: Path | None = None) -> LintResult:
    """Every finding in the files at or below `paths`. One file that cannot be read never stops the others."""
    started = time.monotonic()
    jobs = list(_jobs([Path(path) for path in paths], settings))
    facts = _read_all(jobs, settings)
    project = linked(facts, settings)
    rules = chosen(settings)
    findings, silenced = _findings(project, rules, settings)
    accepted = 0
    if baseline is not None:
        findings, accepted = baselines.without(findings, baselines.read(baseline))
    return LintResult(
        findings=tuple(findings),
        notices=tuple(notice for file in facts for notice in file.notices),
        files=len(jobs),
        suppressed=silenced,
        baselined=accepted,
        seconds=time.monotonic() - started,
        rules=rules,
    )


def lint_text(path: str, text: str, settings: LintSettings, also: Iterable[tuple[str, str]] = ()) -> list[Finding]:
    """The findings of one text as if it were a file, with other files beside it; nothing is read from disk."""
    files = [read(name, body, ReadContext(settings, role_of(name, body))) for name, body in ((path, text), *also)]
    findings, _ = _findings(linked(files, settings), chosen(settings), settings, {path: text, **dict(also)})
    return findings


# -- files -----------------------------------------------------------------------------------------


def _jobs(paths: list[Path], settings: LintSettings) -> Iterator[_Job]:
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist", fix="Give files or folders to read.")
        files = [path] if path.is_file() else _below(path)
        for file in files:
            if file in seen or any(fnmatch.fnmatch(file.as_posix(), pattern) for pattern in settings.exclude):
                continue
            seen.add(file)
            below = file.name if path.is_file() else file.relative_to(path).as_posix()
            yield _Job(file.as_posix(), str(file), below)


def _below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        # target/ of a dbt project repeats its models; the dbt front-end reads the compiled twin itself.
        if "dbt_project.yml" in names and "target" in folders:
            folders.remove("target")
        found.extend(Path(root) / name for name in sorted(names) if name.endswith(SUFFIXES))
    return found


def _read_all(jobs: list[_Job], settings: LintSettings) -> list[FileFacts]:
    workers = settings.jobs or os.cpu_count() or 1
    if workers == 1 or len(jobs) < _FEW:
        return [_read_one(job, settings) for job in jobs]
    try:
        with ProcessPoolExecutor(workers) as pool:
            return list(pool.map(_read_one, jobs, [settings] * len(jobs), chunksize=8))
    except (BrokenProcessPool, OSError):
        # A process died (out of memory, no semaphores in a sandbox): go on in this one.
        return [_read_one(job, settings) for job in jobs]


def _read_one(job: _Job, settings: LintSettings) -> FileFacts:
    path = Path(job.file)
    try:
        # A notebook carries its pictures; its code is no larger for that.
        largest = LARGEST * 20 if path.suffix == ".ipynb" else LARGEST
        if path.stat().st_size > largest:
            return _unread(job, f"larger than {largest / 1_000_000:.1f} MB, not read")
        text = decoded(path.read_bytes())
    except OSError as error:
        return _unread(job, f"cannot be read: {error.strerror}")
    if "\0" in text[:4000]:
        return _unread(job, "not a text file, not read")
    role = role_of(job.below, text)
    # A dbt model means something else when its project file changes.
    around = fingerprint(path.resolve()) if job.shown.endswith(".sql") else ""
    name = cache.key(job.shown, text, role, repr(settings) + around) if settings.cache else ""
    known = cache.load(name) if name else None
    if known is not None:
        return known
    try:
        facts = read(job.shown, text, ReadContext(settings, role, path.resolve()))
    except RecursionError:
        return _unread(job, "nested too deeply, not read")
    except Exception as error:  # noqa: BLE001 - one file must never stop the run; the notice names the fault
        return _unread(job, f"not read, this is a fault of twice lint: {type(error).__name__}: {error}")
    if name:
        cache.store(name, facts)
    return facts


def _unread(job: _Job, why: str) -> FileFacts:
    language = "python" if job.shown.endswith(".py") else "notebook" if job.shown.endswith(".ipynb") else "sql"
    return FileFacts(job.shown, language, notices=(Notice(job.shown, 1, why),))  # type: ignore[arg-type]


# -- findings --------------------------------------------------------------------------------------


def _findings(
    project: ProjectFacts, rules: tuple[Rule, ...], settings: LintSettings, texts: dict[str, str] | None = None
) -> tuple[list[Finding], int]:
    found: list[Finding] = []
    silenced = 0
    ran = frozenset(rule.code for rule in rules)
    report_unused = UNUSED.startswith(settings.select) and not (settings.ignore and UNUSED.startswith(settings.ignore))
    for file in project.files:
        own = [finding for rule in rules if file.role in rule.roles for finding in rule.check(file, project)]
        own = [finding for finding in raised(own, file, project) if finding.code in ran]
        kept, count = applied(_once(own), file, ran)
        silenced += count
        lines = _lines(file.path, kept, texts)
        found.extend(
            replace(finding, source_line=_shown(lines, finding))
            for finding in kept
            if RANK[finding.severity] >= RANK[settings.min_severity] and (finding.code != UNUSED or report_unused)
        )
    found.sort(key=lambda finding: (finding.path, finding.line, finding.column, finding.code))
    return found, silenced


def _shown(lines: list[str], finding: Finding) -> str:
    """The finding's line. Of a line without end (a notebook stored as one line) only what begins at the finding."""
    line = lines[finding.line - 1] if finding.line <= len(lines) else ""
    if len(line) <= 10_000:
        return line
    return line[:200] if finding.column <= 200 else line[finding.column - 1 :][:200]


def _once(findings: list[Finding]) -> list[Finding]:
    """One finding per rule and line: the same string reached by two names is one fault."""
    seen: dict[tuple[str, int], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.line)
        if key not in seen or RANK[finding.severity] > RANK[seen[key].severity]:
            seen[key] = finding
    return list(seen.values())


def _lines(path: str, findings: list[Finding], texts: dict[str, str] | None) -> list[str]:
    if not findings:
        return []
    if texts is not None:
        return texts.get(path, "").splitlines()
    try:
        return decoded(Path(path).read_bytes()).splitlines()
    except OSError:
        return []
