"""What makes a write safe, and what only looks as if it did."""

from __future__ import annotations

import pytest

from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.reader import read
from twice.lint.project import linked
from twice.lint.run import lint_text
from twice.lint.settings import LintSettings


def codes(code: str, path: str = "job.py", *also: tuple[str, str], **settings: object) -> set[str]:
    chosen = LintSettings(**{"preview": True, **settings})  # type: ignore[arg-type]
    return {finding.code for finding in lint_text(path, code, chosen, also)}


CURSOR = "import psycopg2\n\ndef load(conn, rows, day):\n    cur = conn.cursor()\n"


def test_a_delete_and_an_insert_on_one_cursor_with_one_commit_are_one_transaction() -> None:
    code = CURSOR + (
        '    cur.execute("DELETE FROM f WHERE day = %s", (day,))\n'
        '    cur.executemany("INSERT INTO f VALUES (%s, %s)", rows)\n'
        "    conn.commit()\n"
    )
    assert not codes(code) & {"TW302", "TW501"}


def test_the_guard_says_whether_the_delete_commits_with_the_insert() -> None:
    def guards_of(middle: str) -> frozenset[str]:
        code = CURSOR + (
            '    cur.execute("DELETE FROM f WHERE day = %s", (day,))\n'
            f"{middle}"
            '    cur.executemany("INSERT INTO f VALUES (%s, %s)", rows)\n    conn.commit()\n'
        )
        project = linked([read("job.py", code, ReadContext())], LintSettings())
        return frozenset(next(write.guards for write in project.files[0].writes if write.verb == "insert"))

    assert {"delete_before", "delete_atomic"} <= guards_of("")
    assert "delete_atomic" not in guards_of("    conn.commit()\n")


def test_a_commit_between_delete_and_insert_splits_them() -> None:
    code = CURSOR + (
        '    cur.execute("DELETE FROM f WHERE day = %s", (day,))\n'
        "    conn.commit()\n"
        '    cur.executemany("INSERT INTO f VALUES (%s, %s)", rows)\n'
        "    conn.commit()\n"
    )
    assert "TW501" in codes(code)


def test_autocommit_splits_what_one_cursor_would_join() -> None:
    code = (
        "import psycopg2\n\ndef load(dsn, rows):\n    conn = psycopg2.connect(dsn)\n    conn.autocommit = True\n"
        '    cur = conn.cursor()\n    cur.execute("TRUNCATE f")\n'
        '    cur.executemany("INSERT INTO f VALUES (%s)", rows)\n'
    )
    assert "TW501" in codes(code)


def test_a_retention_delete_is_no_guard_for_an_insert() -> None:
    sql = "DELETE FROM f WHERE day < current_date - interval '90 days';\nINSERT INTO f SELECT * FROM s;\n"
    assert "TW302" in codes(sql, "load.sql")


def test_a_delete_of_another_table_is_no_guard() -> None:
    assert "TW302" in codes("DELETE FROM g WHERE day = 1;\nINSERT INTO f SELECT * FROM s;\n", "load.sql")


def test_a_delete_after_the_insert_is_no_guard() -> None:
    assert "TW302" in codes("INSERT INTO f SELECT * FROM s;\nDELETE FROM f WHERE day = 1;\n", "load.sql")


def test_a_drop_among_constants_does_not_promise_that_it_runs_before_the_insert() -> None:
    code = 'DROP = "DROP TABLE IF EXISTS f"\nLOAD = "INSERT INTO f SELECT * FROM s"\n'
    assert "TW302" in codes(code, "queries.py")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO f SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.id = s.id);",
        "INSERT INTO f SELECT * FROM s WHERE s.id NOT IN (SELECT id FROM f);",
        "INSERT INTO f SELECT s.* FROM s LEFT JOIN f ON f.id = s.id WHERE f.id IS NULL;",
        "INSERT INTO f SELECT * FROM s EXCEPT SELECT * FROM f;",
        "INSERT INTO f SELECT * FROM s ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;",
        "INSERT IGNORE INTO f SELECT * FROM s;",
        "CREATE TEMP TABLE f AS SELECT 1 AS id;\nINSERT INTO f SELECT 2;",
        "DROP TABLE IF EXISTS f;\nCREATE TABLE f (id int);\nINSERT INTO f SELECT 2;",
    ],
)
def test_an_insert_that_leaves_out_what_is_there_is_safe(sql: str) -> None:
    assert "TW302" not in codes(sql, "load.sql")


def test_not_exists_against_another_table_is_no_guard() -> None:
    sql = "INSERT INTO f SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM banned b WHERE b.id = s.id);"
    assert "TW302" in codes(sql, "load.sql")


def test_an_insert_under_a_test_that_found_nothing_is_safe() -> None:
    code = CURSOR + (
        '    cur.execute("SELECT 1 FROM f WHERE id = %s", (1,))\n    row = cur.fetchone()\n    if row is None:\n'
        '        cur.execute("INSERT INTO f VALUES (%s)", (1,))\n    conn.commit()\n'
    )
    assert "TW302" not in codes(code)


def test_an_insert_under_a_test_that_there_are_source_rows_is_not_safe() -> None:
    code = CURSOR + (
        '    cur.execute("SELECT * FROM s")\n    found = cur.fetchall()\n    if found:\n'
        '        cur.executemany("INSERT INTO f VALUES (%s)", found)\n    conn.commit()\n'
    )
    assert "TW302" in codes(code)


def test_dynamic_overwrite_set_by_an_imported_session_module_counts_and_by_a_stranger_does_not() -> None:
    job = (
        "from session import spark\n\ndef run(day):\n    df = spark.table('s').where(f\"ds = '{day}'\")\n"
        '    df.write.mode("overwrite").partitionBy("ds").saveAsTable("t")\n'
    )
    session = 'spark = builder.config("spark.sql.sources.partitionOverwriteMode", "dynamic").getOrCreate()\n'
    assert "TW401" not in codes(job, "job.py", ("session.py", session))
    assert "TW401" in codes(job, "job.py", ("stranger.py", session))


def test_a_configured_upsert_target_is_silent() -> None:
    sql = "INSERT INTO profiles SELECT * FROM s;\n"
    assert "TW302" in codes(sql, "load.sql")
    assert "TW302" not in codes(sql, "load.sql", upsert_targets=("profiles",))


def test_a_configured_sink_and_effect_call_are_found() -> None:
    code = (
        "from house import warehouse, alerts\n\n"
        "def run(rows):\n    warehouse.write_rows('f', rows)\n    alerts.page('x')\n"
    )
    assert not codes(code)
    assert {"TW301", "TW801"} <= codes(code, sinks=("*.write_rows",), effect_calls=("*.page",))


def test_a_callback_that_posts_to_slack_is_no_finding() -> None:
    code = (
        "import requests\nfrom airflow import DAG\n\n"
        "def tell(context):\n    requests.post('https://hooks.slack.com/x', json={})\n\n"
        "dag = DAG('x', on_failure_callback=tell)\n"
    )
    assert "TW801" not in codes(code)


def test_files_of_tests_and_web_applications_are_left_alone() -> None:
    code = 'def load(cur):\n    cur.execute("INSERT INTO f VALUES (1)")\n'
    assert codes(code, "etl/load.py")
    assert not codes(code, "tests/test_load.py")
    assert not codes("from flask import Flask\n" + code, "etl/app.py")


def test_retries_raise_a_warning_to_an_error_and_show_where_they_are_set() -> None:
    dag = (
        "from datetime import datetime\nfrom airflow import DAG\nfrom airflow.operators.bash import BashOperator\n"
        "default_args = {'owner': 'x', 'retries': 3}\n"
        "dag = DAG('d', default_args=default_args, start_date=datetime(2026, 1, 1), catchup=True)\n"
        "BashOperator(task_id='load', bash_command='psql -f load.sql')\n"
    )
    sql = "COPY sales FROM 's3://b/x' IAM_ROLE 'r' CSV;\n"
    settings = LintSettings(select=("TW306",))
    alone = lint_text("load.sql", sql, settings)
    scheduled = [f for f in lint_text("load.sql", sql, settings, (("dag.py", dag),)) if f.code == "TW306"]
    assert [f.severity for f in alone] == ["warning"]
    assert [f.severity for f in scheduled] == ["error"]
    assert {related.path for related in scheduled[0].related} == {"dag.py"}
    assert any("retries=3" in related.message for related in scheduled[0].related)
