"""What one scan of files reads, as an identity that changes exactly when its rows may have.

Delta: (path, deletion vector) of each file left after pruning and skipping, with the table's id and the columns
read. Plain files: path, size and modification time of each file of the relation (partitions are not pruned), and how
they are read: the format, its options, the schema.
Nothing here runs a job over data; Delta may run one over its own log to list files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError

from twice.core.ports import INPUT_FILES, Leaf
from twice.engine.catalyst import JavaObject, Jvm, class_name
from twice.engine.frames.files import INPUT_OPTION

DELTA, FILES = "delta", "files"

_MOST_COMMITS = 1000
"""How far back the log is read to see whether files were only rearranged; beyond that, compute again."""

_STATUS = re.compile(r"path=(.*?); isDirectory=\w+; length=(\d+);.*?modification_time=(\d+);")

_BETWEEN = "\x00"
_WHERE = frozenset({"path", "paths", "basepath", INPUT_OPTION})
_ACCESS = "fs."

File = tuple[str, str]
"""Path and deletion vector ("" for none)."""


@dataclass(frozen=True)
class DeltaScan:
    """The files of one table that one scan reads. `added` is the log's entry of each."""

    table: str
    path: str
    version: int
    columns: tuple[str, ...]
    files: frozenset[File]
    added: Mapping[File, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    def leaf(self) -> Leaf:
        return Leaf(DELTA, self.path, self.identity(self.files), self.version)

    def identity(self, files: Iterable[File]) -> str:
        return digest("delta", self.table, self.columns, sorted(files))


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:32]


def unversioned(kind: str, name: str) -> Leaf:
    return Leaf(kind, name, None)


def scan_of(relation: JavaObject, columns: Sequence[str], jvm: Jvm) -> DeltaScan | Leaf:
    """What a relation of files reads, once the optimiser has pushed filters into it."""
    if not _is_of_files(relation):
        return unversioned("relation", class_name(relation).rpartition(".")[2])
    location = relation.location()
    index = class_name(location).rpartition(".")[2]
    if index in ("PreparedDeltaFileIndex", "TahoeLogFileIndex"):
        return _delta_scan(location, columns, jvm)
    if index == "CatalogFileIndex":
        location, index = location.filterPartitions(_nothing(jvm)), "InMemoryFileIndex"
    declared = declared_input(relation)
    if declared is not None:
        return unversioned(INPUT_FILES, declared)
    if index == "InMemoryFileIndex":
        return _plain_files(location, how_read(relation))
    return unversioned(FILES, index)


def whole_table(relation: JavaObject) -> Leaf | None:
    """A Delta table read without a scan (a count answered from the log): its version. None if it is no Delta."""
    if not _is_of_files(relation):
        return None
    location = relation.location()
    if not class_name(location).endswith(".TahoeLogFileIndex"):
        return None
    snapshot = location.getSnapshot()
    version = int(snapshot.version())
    identity = digest("version", str(snapshot.metadata().id()), version)
    return Leaf(DELTA, str(location.path().toString()), identity, version)


def source_of(relation: JavaObject) -> str:
    """Which table or files a relation is of, wherever they are and whatever they hold now; and how files are read."""
    if not _is_of_files(relation):
        return class_name(relation)
    declared = declared_input(relation)
    if declared is not None:
        return f"input {declared} {how_read(relation)}"
    location = relation.location()
    if class_name(location).endswith(".TahoeLogFileIndex"):
        return str(location.getSnapshot().metadata().id())
    return f"{location.rootPaths().mkString(', ')} {how_read(relation)}"


def declared_input(relation: JavaObject) -> str | None:
    """The input that a relation's files were declared as; None if they were not."""
    found = relation.options().get(INPUT_OPTION)
    return str(found.get()) if found.isDefined() else None


def place_of(relation: JavaObject) -> str:
    """Where a relation's files are, for people; its class's name if it has none."""
    if not _is_of_files(relation):
        return class_name(relation).rpartition(".")[2]
    return str(relation.location().rootPaths().mkString(", "))


def how_read(relation: JavaObject) -> str:
    """The format, the options and the schema by which a relation's files become rows, as a hash: an option may hold a
    secret. Left out is what only says where files are and how to read them, such as a key that is new every hour."""
    pairs = str(relation.options().mkString(_BETWEEN)).split(_BETWEEN)
    options = sorted((name.lower(), value) for name, _, value in (pair.partition(" -> ") for pair in pairs))
    counting = [(name, value) for name, value in options if name not in _WHERE and not name.startswith(_ACCESS)]
    schemas = [str(schema.json()) for schema in (relation.dataSchema(), relation.partitionSchema())]
    return digest("read", class_name(relation.fileFormat()), counting, schemas)


def only_rearranged(scan: DeltaScan, before: Leaf, session: JavaObject, jvm: Jvm) -> bool:
    """Do this scan's files hold the rows of `before`, moved only by commits that change no data (OPTIMIZE)?

    Undoes such commits on the scan's files, newest first, as far as the version of `before`; the answer is yes if
    that gives the very files of `before`. No if the log is gone, or too long. A file that such a commit wrote is
    undone into all the files it removed from that partition: with skipping that may be too many, and the answer no.
    """
    if before.version is None or not 0 < scan.version - before.version <= _MOST_COMMITS:
        return False
    files = set(scan.files)
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, scan.path)
    for version in range(scan.version, before.version, -1):
        actions = _actions(log, jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{version:020d}.json"))
        if actions is None or not _undo(actions, files):
            return False
    return scan.identity(files) == before.identity


def _undo(actions: list[dict[str, Any]], files: set[File]) -> bool:
    """Take one commit back; False if a file here came with a change of data."""
    added = [action["add"] for action in actions if "add" in action]
    ours = [add for add in added if _file(add) in files]
    if any(add["dataChange"] for add in ours):
        return False
    partitions = [add.get("partitionValues") for add in ours]
    removed = [action["remove"] for action in actions if "remove" in action]
    files.difference_update(_file(add) for add in ours)
    files.update(
        _file(each) for each in removed if not each["dataChange"] and each.get("partitionValues") in partitions
    )
    return True


def _actions(log: JavaObject, commit: JavaObject) -> list[dict[str, Any]] | None:
    try:
        lines = str(log.store().read(commit, log.newDeltaHadoopConf()).mkString("\n"))
    except Py4JJavaError:
        return None  # cleaned up, or not yet published by a catalog
    # Not splitlines(): to Python U+2028 ends a line too, and Delta writes it as it is.
    return [json.loads(line) for line in lines.split("\n") if line]


def _is_of_files(relation: JavaObject) -> bool:
    # Delta 4.4 makes an anonymous subclass of it.
    own = relation.getClass()
    return any(str(each.getName()).endswith(".HadoopFsRelation") for each in (own, own.getSuperclass()))


def _delta_scan(location: JavaObject, columns: Sequence[str], jvm: Jvm) -> DeltaScan:
    if class_name(location).endswith(".PreparedDeltaFileIndex"):
        prepared = location.preparedScan()
        version, files, table = prepared.version(), prepared.files(), location.metadata().id()
    else:  # skipping is switched off in this session: every file counts
        snapshot = location.getSnapshot()
        version, table = snapshot.version(), snapshot.metadata().id()
        files = location.matchingFiles(_nothing(jvm), _nothing(jvm))
    # One call for all files: 1,000 of them would be thousands of calls one by one.
    text = jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(files)
    found = {_file(add): add for add in json.loads(text)}
    path = str(location.path().toString())
    return DeltaScan(str(table), path, int(version), tuple(columns), frozenset(found), found)


def _file(action: dict[str, Any]) -> File:
    vector = action.get("deletionVector")
    if not vector:
        return action["path"], ""
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def _plain_files(location: JavaObject, how: str) -> Leaf:
    files = location.allFiles()
    found = sorted(_STATUS.findall(files.mkString("\n")))
    name = str(location.rootPaths().mkString(", "))
    if len(found) != files.size():
        return unversioned(FILES, name)  # a file system whose status is written in another way
    return Leaf(FILES, name, digest("files", found, how))


def _nothing(jvm: Jvm) -> JavaObject:
    nil = getattr(jvm.scala.collection.immutable, "Nil$")
    return getattr(nil, "MODULE$")
