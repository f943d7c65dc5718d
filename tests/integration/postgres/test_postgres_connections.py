"""Connections to PostgreSQL: how many, and with which limits. No JVM."""

from __future__ import annotations

import threading

from psycopg.conninfo import conninfo_to_dict

from twice.targets.postgres.server.server import Limits, Server


def test_a_process_has_no_more_connections_than_its_limit(database: str) -> None:
    server = Server("postgres", database, Limits(connections=2))
    seen, both = list[int](), threading.Barrier(2)

    def look() -> None:
        with server.transaction() as connection:
            both.wait(20)  # two are inside at once
            row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twice'")
            seen.append(row.fetchone()[0])  # type: ignore[index]
            both.wait(20)  # and neither leaves before both have looked

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [2] * 6


def test_a_connection_has_its_limits_and_the_urls_own_win(database: str) -> None:
    server = Server("postgres", f"{database}?connect_timeout=3", Limits(lock=7, statement=8, idle=9))
    given = conninfo_to_dict(server.secret)
    assert {name: given[name] for name in ("connect_timeout", "keepalives", "keepalives_idle", "tcp_user_timeout")} == {
        "connect_timeout": "3",
        "keepalives": "1",
        "keepalives_idle": "30",
        "tcp_user_timeout": "60000",
    }
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "timezone")
    with server.transaction() as connection:
        settings = [connection.execute(f"SHOW {name}").fetchone() for name in names]
    assert settings == [("7s",), ("8s",), ("9s",), ("UTC",)]
