"""What may be shown of a text that holds secrets."""

from __future__ import annotations

import json

import pytest

from twice.core.names.reference import hide_passwords, hide_passwords_in


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:s3kr1t@db/shop", "postgresql://me:***@db/shop"),
        ("postgresql://me:s3/kr1t@db/shop", "postgresql://me:***@db/shop"),
        ("https://db.example/x?a=1&token=s3kr1t", "https://db.example/x?a=1&token=***"),
        ("host=db password=s3kr1t dbname=shop", "host=db password=*** dbname=shop"),
        (r"host=db password = 's3 \' kr1t' dbname=shop", "host=db password = *** dbname=shop"),
        ("host=db sslpassword=s3kr1t", "host=db sslpassword=***"),
        ("-Djavax.net.ssl.keyStorePassword=s3kr1t -Da=b", "-Djavax.net.ssl.keyStorePassword=*** -Da=b"),
        ("host=db password=${env:SHOP}", "host=db password=${env:SHOP}"),
        ("https://db.example:8443/@me", "https://db.example:8443/@me"),
    ],
)
def test_passwords_are_hidden_in_every_form_a_connection_is_written_in(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown


def test_what_is_hidden_in_rows_of_the_ledger_leaves_them_json() -> None:
    message = {"to": ["https://db.example/x?token=s3kr1t"], "body": "42 rows"}
    row = {"table": "effects", "message": json.dumps(message), "why": "[not json", "fence": 7, "receipt": None}
    shown = json.loads(json.dumps(hide_passwords_in(row)))
    assert json.loads(shown["message"]) == {**message, "to": ["https://db.example/x?token=***"]}
    assert {**shown, "message": ""} == {**row, "message": ""}
    reference = {"to": ["https://db.example/x?token=${env:T}"]}
    assert hide_passwords_in(reference) == reference
