"""One JVM for all tests that need one, and one PostgreSQL. A test that asks for `spark` (or `session`) carries the
mark by itself."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import Engine, create_engine
from tests.postgres_server import PostgresServer
from tests.tiny_queries import INTERPRETED

from twice.ledgers.database import connect


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in its background with Ctrl-C ignored, and so would be every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # PySpark leaves the local socket of each collect() to the garbage collector.
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket.*127\.0\.0\.1:ResourceWarning")


# A busy machine is no defect: every test has its own limit in pytest's settings.
settings.register_profile("twice", deadline=None)
settings.load_profile("twice")


_LONGEST_FIRST = ("proof", "acceptance", "spark", "contracts", "integration")
"""Files of few tests that take minutes, then those of many that take seconds: no process is left alone at the end."""


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is long
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if _is_left_out(item):
            item.add_marker(pytest.mark.long)
    items.sort(key=_turn)


def _is_left_out(item: pytest.Item) -> bool:
    """A class that passes a suite may name the tests of it that `make test` takes, or those that it leaves out."""
    suite, name = getattr(item, "cls", None), getattr(item, "originalname", item.name)
    return name not in getattr(suite, "sampled", {name}) or name in getattr(suite, "left_out", ())


def _turn(item: pytest.Item) -> int:
    room = item.path.relative_to(Path(__file__).parent).parts[0]
    return _LONGEST_FIRST.index(room) if room in _LONGEST_FIRST else len(_LONGEST_FIRST)


@pytest.fixture(scope="session", autouse=True)
def statements_are_compiled_once() -> Iterator[None]:
    """SQLAlchemy keeps a compiled statement per engine and dialect, and each test opens a ledger of its own: a quarter
    of the time of these tests went into compiling the same statements again. Here all SQLite engines of a process
    share one dialect and one cache; connections, pools and files stay each engine's own."""
    first = create_engine("sqlite://")
    with first.connect():  # a dialect learns what its database can do from the first connection
        pass
    first.dispose()
    compiled: dict[Any, Any] = {}

    def create(*arguments: Any, **options: Any) -> Engine:
        made = create_engine(*arguments, **options)
        if made.dialect.name == "sqlite":
            made.dialect = first.dialect
            made.update_execution_options(compiled_cache=compiled)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connect, "create_engine", create)
        yield


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of all tables of the shared session."""
    return tmp_path_factory.mktemp("warehouse")


_TINY_QUERIES = {
    **INTERPRETED,
    "spark.sql.ui.explainMode": "simple",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.extraJavaOptions": "-Xms1500m -Xmn900m",
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[Any]:
    """The embedded session, started once. Use `session` unless the test is about the base session itself."""
    # Imported here: unit tests must not load pyspark.
    from twice.engine.session.session import close, embedded
    from twice.engine.session.spark_conf import SessionSettings

    folder = tmp_path_factory.mktemp("spark")
    conf = {} if request.config.getoption("-m") == "long" else _TINY_QUERIES
    base = embedded(SessionSettings(folder, warehouse, conf=conf, short_jobs=True, archive="use"))
    yield base
    close(base)


@pytest.fixture
def session(spark: Any) -> Any:
    """A fresh session for one test, as each run has its own."""
    from twice.engine.session.session import run_session

    return run_session(spark)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, started once. Use `database` unless the test is about the server itself."""
    server = PostgresServer.start()
    yield server
    server.remove()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database, dropped afterwards."""
    with postgres.lent_database() as url:
        yield url


@pytest.fixture(scope="module")
def one_database(postgres: PostgresServer) -> Iterator[str]:
    """One for all tests of a module, which empty it: to drop two schemas takes less than to make a database."""
    with postgres.lent_database() as url:
        yield url


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """Ledgers without entries, to be copied: cheaper than migrating for each test."""
    from twice.ledgers.ledger import Ledger

    urls = {
        "sqlite": f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db",
        "postgres": postgres.fresh_database(),
    }
    for url in urls.values():
        Ledger.open(url).close()
    yield urls
    postgres.drop(urls["postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def either(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer, migrated: dict[str, str]
) -> Iterator[str]:
    if request.param == "sqlite":
        shutil.copy(migrated["sqlite"].removeprefix("sqlite:///"), tmp_path / "ledger.db")
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    with postgres.lent_database(template=migrated["postgres"]) as copy:
        yield copy
