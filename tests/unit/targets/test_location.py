"""A PostgreSQL server's place is stored and shown: it tells servers and databases apart and holds no secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from twice.config import load
from twice.errors import EnvironmentProblem
from twice.targets.postgres.location import former_location, location_of
from twice.targets.postgres.server.server import Server
from twice.wiring.targets import Targets

SECRET = "s3kr1t"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:s3kr1t@db:5433/shop", "postgresql://db:5433/shop"),
        ("postgres://db/shop", "postgresql://db/shop"),
        ("postgresql+psycopg://me:s3kr1t@db/shop?password=s3kr1t", "postgresql://db/shop"),
        ("postgresql://a:1,b:2/shop", "postgresql://a:1,b:2/shop"),
        ("postgresql://[::1]:5433/shop", "postgresql://[::1]:5433/shop"),
        ("postgresql://me@/shop?host=/run/pg&port=5433", "postgresql:///run/pg:5433/shop"),
        ("postgresql://", "postgresql:///"),
        # Two databases, two servers and two services are two places however they are written.
        ("postgresql://db/?dbname=shop", "postgresql://db/shop"),
        ("postgresql://:5433/shop?host=/run/pg", "postgresql:///run/pg:5433/shop"),
        ("service=prod", "postgresql:///?service=prod"),
        ("postgresql://?service=prod", "postgresql:///?service=prod"),
        # What libpq takes for a password, and a parser of URLs does not.
        ("postgresql://me:s3kr1t#s3kr1t@db/shop", "postgresql://db/shop"),
        ("postgresql://me:s3kr1t?s3kr1t@db/shop", "postgresql://db/shop"),
        ("postgresql://me:[s3kr1t@db/shop", "postgresql://db/shop"),
        ("host=db port=5433 dbname=shop user=me password=s3kr1t", "postgresql://db:5433/shop"),
        ("password = 's3kr1t \\'s3kr1t' host = db", "postgresql://db/"),
        (r"dbname=shop password=s3kr1t\ s3kr1t hostaddr=10.0.0.1", "postgresql://10.0.0.1/shop"),
    ],
)
def test_it_is_host_port_and_database_as_libpq_reads_them_and_no_secret(url: str, place: str) -> None:
    conninfo_to_dict(url.replace("+psycopg", ""))  # libpq takes it
    assert location_of(url) == place
    assert SECRET not in place


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3kr1t/1@db/shop",
        "postgresql://me:12/s3kr1t@db/shop",
        "postgresql://me:12@s3kr1t@db/shop",
        "host=db password='s3kr1t",
        "host=db s3kr1t",
    ],
)
def test_what_libpq_would_take_for_a_host_or_a_port_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    (tmp_path / "twice.toml").write_text(f'project = "p"\n[connections.shop]\nurl = "{url}"\n')
    assert Targets(load(tmp_path)).location("shop").here == "shop"
    with pytest.raises(EnvironmentProblem, match="the URL of the connection shop cannot be read") as refused:
        Server("shop", url)
    assert SECRET not in str(refused.value) and "12" not in str(refused.value)


def test_a_name_that_held_a_secret_is_known_so_that_it_can_be_taken_away() -> None:
    assert former_location("host=db password=s3kr1t") == "postgresql:///host=db password=s3kr1t"
    assert former_location("postgresql://me:s3#kr1t@db/shop") == "postgresql://me:s3/"
    assert former_location("postgresql://me:s3kr1t@db/shop?a=b#c") is None
