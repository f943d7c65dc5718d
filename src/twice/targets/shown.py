"""Values of a table for people: dates and times, never days since 1970 or microseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from twice.core.ports import Column

_GIVEN = re.compile(r"(?:^|(?<= ))- (\S+) : (-?\d+)(?= - |$)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def readable(values: str, columns: Sequence[Column]) -> str:
    """Values as Delta names them (`- order_date : 20614`), with days since 1970 as dates and microseconds as times.
    A number that Python has no date for (Spark counts further than the year 9999) stays a number."""
    types = {column.name.lower(): column.type for column in columns}

    def shown(given: re.Match[str]) -> str:
        type_ = types.get(given[1].strip("`").lower(), "")
        try:
            if type_ == "date":
                return f"- {given[1]} : {_EPOCH.date() + timedelta(days=int(given[2]))}"
            if type_.startswith("timestamp"):
                return f"- {given[1]} : {_EPOCH + timedelta(microseconds=int(given[2])):%Y-%m-%d %H:%M:%S.%f} UTC"
        except OverflowError:
            return given[0]
        return given[0]

    return _GIVEN.sub(shown, values)
