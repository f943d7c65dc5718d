"""Command line of the pipelines: no data is written here."""
import argparse
import logging
import secrets
import uuid
from datetime import datetime, timezone

log = logging.getLogger("pipelines")


def request_headers() -> dict[str, str]:
    return {"X-Request-Id": str(uuid.uuid4()), "X-Nonce": secrets.token_hex(8)}


def parse(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("pipeline")
    parser.add_argument("--day", required=True, help="the day to build, YYYY-MM-DD")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(argv)


def timed(function):
    def inner(*args, **kwargs):
        started = datetime.now(timezone.utc)
        try:
            return function(*args, **kwargs)
        finally:
            log.info("%s took %s", function.__name__, datetime.now(timezone.utc) - started)

    return inner
