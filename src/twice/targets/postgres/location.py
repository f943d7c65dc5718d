"""Where a connection's server is, read from its URL as libpq reads it: host, port and database, and nothing else of it.

The place is stored in the ledger and shown. libpq takes more for a password than a URL parser does (`#`, `?`), and has
a form without a scheme (`host=… password=…`), so the text itself is never taken over: what cannot be read has no place.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

_URL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://(.*)", re.IGNORECASE | re.DOTALL)
_USER = re.compile(r"\A[^@/]*@")
_PART = re.compile(r"""\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)""", re.DOTALL)
_PORTS = re.compile(r"\d*")


def location_of(text: str) -> str | None:
    """`postgresql://host:port/database` of a connection's URL; None for what is none, or would show a secret."""
    text = text.strip()
    found = _of_url(text) if "://" in text else _of_words(text)
    return None if found is None or "@" in found else found


def former_location(text: str) -> str | None:
    """What an earlier twice called a place in the ledger where that held a secret, or could; None if it did not."""
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    if "://" not in text:
        return f"postgresql:///{url.path.lstrip('/')}"
    user = _USER.match(text.partition("://")[2])
    if user is None or not set("#?") & set(user[0]):
        return None
    return f"postgresql://{url.netloc.rpartition('@')[2]}/{url.path.lstrip('/')}"


def _of_url(text: str) -> str | None:
    found = _URL.fullmatch(text)
    if found is None:
        return None
    server, _, query = _USER.sub("", found[1], count=1).partition("?")
    hosts, _, database = server.partition("/")
    asked = {name: ",".join(values) for name, values in parse_qs(query).items()}
    port = asked.get("port", "")
    if asked.get("host"):
        hosts, port = asked["host"], port or _port(hosts)
    elif not _PORTS.fullmatch(_port(hosts)):
        return None  # a password with a slash in it, which libpq takes for a port
    return _written(hosts, port, asked.get("dbname") or database.lstrip("/"), asked.get("service", ""))


def _of_words(text: str) -> str | None:
    words: dict[str, str] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        value = part[2][1:-1] if part[2].startswith("'") else part[2]
        words[part[1].lower()] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        at = part.end()
    hosts = words.get("host") or words.get("hostaddr") or ""
    return _written(hosts, words.get("port", ""), words.get("dbname", ""), words.get("service", ""))


def _port(hosts: str) -> str:
    """Of the last host, or nothing. The colons of an IPv6 address stand in brackets."""
    return hosts.rpartition("]")[2].rpartition(":")[2] if ":" in hosts.rpartition("]")[2] else ""


def _written(hosts: str, port: str, database: str, service: str) -> str:
    return f"postgresql://{hosts}{port and f':{port}'}/{database}{service and f'?service={service}'}"
