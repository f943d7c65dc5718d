"""From a URL to an engine: what is refused, and what every connection has set."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import Claim, ClaimRequest, Facts
from twice.errors import EnvironmentProblem
from twice.ledgers.database import connect
from twice.ledgers.database.connect import for_writing, network_file_system
from twice.ledgers.ledger import Ledger

MOUNTS = r"""
/dev/vda / ext4 rw 0 0
server:/export /mnt/team nfs4 rw,vers=4.2 0 0
//pc/share /mnt/team/windows\040share cifs rw 0 0
/dev/vdb /mnt/team/local xfs rw 0 0
me@host:/ /home/me/remote fuse.sshfs rw 0 0
/dev/vdc /over ext4 rw 0 0
server:/x /over nfs rw 0 0
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


def claim(ledger: Ledger, attempt: str = "one") -> Claim:
    found = ledger.claim(ClaimRequest("t", ["a"], attempt, "run", "h"), timedelta(minutes=1))
    assert isinstance(found, Claim)
    return found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/x.db", None),
        ("/mnt/team/x.db", "nfs4"),
        ("/mnt/team", "nfs4"),
        ("/mnt/teamwork/x.db", None),
        ("/mnt/team/windows share/x.db", "cifs"),
        ("/mnt/team/local/deep/x.db", None),
        ("/home/me/remote/x.db", "fuse.sshfs"),
        ("/over/x.db", "nfs"),
    ],
)
def test_a_network_file_system_is_known_by_the_nearest_mount(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_an_sqlite_ledger_on_a_network_file_system_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/export {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(connect, "MOUNTS", mounts)
    path = tmp_path / "state" / "ledger.db"
    with pytest.raises(EnvironmentProblem) as caught:
        Ledger.open(f"sqlite:///{path}")
    assert str(caught.value) == (
        f"ledger {path}: an SQLite ledger cannot live on a network file system (nfs4): its locks do not hold there, "
        "and two processes could both believe they own the same work. "
        "Put the ledger on a local disk, or use PostgreSQL: "
        "postgresql://user:password@host/database."
    )
    assert not path.exists()


def test_a_link_to_a_network_file_system_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "remote")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/export {tmp_path}/remote nfs rw 0 0\n")
    monkeypatch.setattr(connect, "MOUNTS", mounts)
    with pytest.raises(EnvironmentProblem, match="network file system"):
        Ledger.open(f"sqlite:///{tmp_path}/link/ledger.db")


def test_a_machine_without_a_list_of_mounts_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "MOUNTS", tmp_path / "missing")
    Ledger.open(f"sqlite:///{tmp_path}/ledger.db").close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3kr1t no url", "the ledger's URL cannot be read as a database URL"),
        ("", "the ledger's URL cannot be read as a database URL"),
        ("postgresql://me:s3kr1t@host:port/db", "the ledger's URL cannot be read as a database URL"),
        ("mysql://me:s3kr1t@host/db", "the ledger cannot live in 'mysql'"),
        ("sqlite://", "the ledger would forget everything"),
        ("sqlite:///:memory:", "the ledger would forget everything"),
        (
            "postgresql+nodriver://me:s3kr1t@host/db?password=s3kr1t",
            "the ledger takes no driver postgresql+nodriver",
        ),
    ],
)
def test_a_url_that_is_no_ledger_is_reported_without_its_password(url: str, message: str) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        Ledger.open(url)
    assert message in str(caught.value)
    assert caught.value.fix
    assert "s3kr1t" not in str(caught.value)


def test_the_folder_is_made_and_the_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    opened = Ledger.open(f"sqlite:///{folder}/ledger.db")
    claim(opened)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    opened.close()
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_every_connection_is_durable_and_checks_its_references(ledger: Ledger) -> None:
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
    with (
        ledger._engine.begin() as first,
        ledger._engine.begin() as second,
        for_writing(ledger._engine).begin() as third,
    ):
        for connection in (first, second, third):
            found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in wanted}
            assert found == wanted
            raw = connection.connection.dbapi_connection
            assert raw is not None
            assert raw.isolation_level is None


def test_a_first_opening_waits_for_a_writer_that_came_before_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    # SQLite itself answers "locked" at once here, whatever the timeout.
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("CREATE TABLE theirs (x)")
        timer = threading.Timer(0.3, writer.execute, ["COMMIT"])
        timer.start()
        Ledger.open(f"sqlite:///{path}").close()
        timer.join()


def test_a_reader_never_waits_for_a_writer(ledger: Ledger, tmp_path: Path) -> None:
    claim(ledger)
    with for_writing(ledger._engine).begin() as connection:
        connection.exec_driver_sql("UPDATE twice_attempts SET holder = 'unseen'")
        record = ledger.attempt("one")
        assert record is not None
        assert record.holder == "h"


def test_a_writer_waits_for_the_one_before_it(ledger: Ledger) -> None:
    held = claim(ledger)
    order: list[str] = []

    def renew() -> None:
        ledger.renew(held, timedelta(minutes=9))
        order.append("second")

    with for_writing(ledger._engine).begin():
        thread = threading.Thread(target=renew)
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]


def test_a_writer_that_waits_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "BUSY_SECONDS", 0.1)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    try:
        with (
            for_writing(ledger._engine).begin(),
            pytest.raises(EnvironmentProblem, match="another process has been writing to the ledger for too long"),
        ):
            claim(ledger)
        claim(ledger)
    finally:
        ledger.close()


def test_two_threads_share_a_ledger(ledger: Ledger) -> None:
    held = claim(ledger)
    failures: list[BaseException] = []

    def heartbeat() -> None:
        try:
            for _ in range(30):
                assert ledger.renew(held, timedelta(minutes=1))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=heartbeat)
    thread.start()
    for number in range(30):
        ledger.record_found("t", [FoundPublish(str(number), 1)])
    thread.join(30)
    assert failures == []
    ledger.publish("one", Facts(), generations={"a": 1})
