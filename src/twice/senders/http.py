"""One HTTP request, sent once: no retries, no redirects, no proxies, no waiting without end.

On httpcore rather than on httpx above it: its network backend sees the moment before the first byte leaves, which
separates what surely did not happen from what may have, and connects to the very address that was checked.
"""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore

from twice.core.failure.transience import Nature, of_status
from twice.core.ledger.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import NotLeaving
from twice.senders.address import PUBLIC_ONLY, Allowed, Blocked, addresses_of, ascii_host
from twice.senders.redaction import Redaction

CONNECT_SECONDS = 10.0
LONGEST_REPLY = 64 * 1024
LONGEST_WAIT = timedelta(days=1)

Leaving = Callable[[], None]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def retry_after(self) -> timedelta | None:
        """How long the receiver wants no further request, in seconds or until a date."""
        text = self.headers.get("retry-after", "").strip()
        if text.isdecimal():
            return min(timedelta(seconds=int(text[:9])), LONGEST_WAIT)
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return None
        until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
        return min(max(until - datetime.now(timezone.utc), timedelta(0)), LONGEST_WAIT)


@dataclass(frozen=True)
class Http:
    """`seconds` bounds a whole request. `certificates`: a file of further authorities, for receivers of one's own."""

    allowed: Allowed = PUBLIC_ONLY
    seconds: float = 30.0
    certificates: str | None = None

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], leaving: Leaving, redaction: Redaction
    ) -> Reply | Answer:
        """The receiver's reply, or what it means that there is none."""
        try:
            parts = urlsplit(url)
            refused, host = self._refused(parts), _host(parts)
        except ValueError as error:  # a name or an address that is none
            return Refused(redaction.redact(f"it cannot be sent: {error}"), for_good=True)
        if refused is not None:
            return refused
        backend = _CheckedBackend(self.allowed, time.monotonic() + self.seconds, leaving)
        sent = {
            "Host": host,
            "User-Agent": "twice",
            "Accept": "*/*",
            "Connection": "close",
            "Content-Length": str(len(body)),
            **_credentials(parts),
            **headers,
        }
        try:
            context = self._context if parts.scheme == "https" else None
            with httpcore.ConnectionPool(ssl_context=context, retries=0, network_backend=backend) as pool:
                return self._request(pool, parts, list(sent.items()), body)
        except NotLeaving:
            raise
        except Blocked as error:
            return Refused(redaction.redact(str(error)), for_good=True)
        except (OSError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            reason = redaction.redact(f"{type(error).__name__}: {error}".rstrip(": "))
            return Doubtful(reason) if backend.left else Refused(reason, for_good=_is_untrusted(error))
        except ValueError as error:  # a port, a name or a header that cannot be sent; h11 checks before it writes
            return Refused(redaction.redact(f"it cannot be sent: {error}"), for_good=True)

    def _request(
        self,
        pool: httpcore.ConnectionPool,
        parts: SplitResult,
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> Reply:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        address = httpcore.URL(
            scheme=parts.scheme.encode(),
            host=ascii_host(parts.hostname or "").encode("ascii"),
            port=parts.port,
            target=target.encode("utf-8"),
        )
        timeouts = {"connect": CONNECT_SECONDS, "read": self.seconds, "write": self.seconds, "pool": CONNECT_SECONDS}
        with pool.stream("POST", address, headers=headers, content=body, extensions={"timeout": timeouts}) as answer:
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            # The status is known from here on: a body that breaks off changes nothing.
            return Reply(answer.status, found, _beginning(answer.iter_stream()))

    def _refused(self, parts: SplitResult) -> Refused | None:
        if not parts.hostname or parts.scheme not in ("http", "https"):
            return Refused("its URL is not a valid http(s) URL", for_good=True)
        if parts.scheme == "http" and not self.allowed.name(parts.hostname):
            return Refused("its URL is not https; name the host in [effects] allow to send in the clear", for_good=True)
        return None

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificates)


def meaning(reply: Reply, keyed: bool, redaction: Redaction) -> Answer:
    """What a status means: done, surely not done, or not known. A server that fails may have acted before."""
    answer = redaction.redact(f"HTTP {reply.status} {reply.text}")
    if 200 <= reply.status < 300:
        return Delivered(answer)
    wait = reply.retry_after
    if reply.status == 409 and keyed:
        return Doubtful(f"{answer} (the first request with this key is still running)", wait)
    if reply.status == 429 or reply.status == 425 or (reply.status == 503 and wait is not None):
        return Refused(answer, wait=wait)
    if of_status(reply.status) is Nature.TRANSIENT or reply.status >= 500:
        return Doubtful(answer, wait)
    if 300 <= reply.status < 400:
        return Refused(f"{answer} (redirects are not followed)", for_good=True)
    return Refused(answer, for_good=True)


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects to checked addresses, keeps the deadline, and calls `leaving` before the request's first byte."""

    def __init__(self, allowed: Allowed, deadline: float, leaving: Leaving) -> None:
        self._allowed = allowed
        self._deadline = deadline
        self._leaving = leaving
        self._backend = httpcore.SyncBackend()
        self.left = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = addresses_of(host, port, self._allowed)
        for number, address in enumerate(addresses, 1):
            try:
                stream = self._backend.connect_tcp(address, port, self.bound(timeout), local_address, socket_options)
                return _Stream(stream, self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise httpcore.ConnectError(f"{host} has no address")

    def bound(self, timeout: float | None) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the whole request took too long")
        return left if timeout is None else min(left, timeout)

    def leave(self) -> None:
        if not self.left:
            self._leaving()
            self.left = True


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, backend: _CheckedBackend) -> None:
        self._stream = stream
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._backend.bound(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._backend.leave()
        self._stream.write(buffer, self._backend.bound(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        # The handshake's bytes are not the request's: they go through the stream below.
        return _Stream(
            self._stream.start_tls(ssl_context, server_hostname, self._backend.bound(timeout)), self._backend
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _beginning(chunks: Iterable[bytes]) -> str:
    found = b""
    try:
        for chunk in chunks:
            found += chunk
            if len(found) >= LONGEST_REPLY:
                break
    except (OSError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        pass
    return found[:LONGEST_REPLY].decode("utf-8", "replace")


def _host(parts: SplitResult) -> str:
    """With its port, as it was written; the name as the network knows it."""
    name = ascii_host(parts.hostname or "")
    written = f"[{name}]" if ":" in name else name
    return written if parts.port is None else f"{written}:{parts.port}"


def _credentials(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{parts.username}:{parts.password or ''}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _is_untrusted(error: BaseException) -> bool:
    """A certificate that does not hold will not hold the next time."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)  # OpenSSL's code; httpcore cuts the chain of causes
