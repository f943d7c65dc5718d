"""Where a webhook may go: looked up once, checked, and connected to at the very address that was checked.

A name that is looked up again after the check could point elsewhere by then (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses behind a translator, written as IPv6."""


class Blocked(Exception):
    """This address may not be connected to. Nothing was sent."""


@dataclass(frozen=True)
class Allowed:
    """What the project allows beyond public https: host names and networks (`10.1.0.0/16`, `127.0.0.1`)."""

    entries: tuple[str, ...] = ()

    def name(self, host: str) -> bool:
        return host.lower().rstrip(".") in {entry.lower() for entry in self.entries} or self._literal(host)

    def address(self, address: Address) -> bool:
        return any(address in network for network in self._networks())

    def _literal(self, host: str) -> bool:
        try:
            return self.address(ipaddress.ip_address(host))
        except ValueError:
            return False

    def _networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        found = []
        for entry in self.entries:
            try:
                found.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                continue  # a host's name
        return found


PUBLIC_ONLY = Allowed()


def addresses_of(host: str, port: int, allowed: Allowed) -> tuple[str, ...]:
    """The addresses of a host that may be connected to. Raises Blocked if any of them is not public and not allowed,
    OSError if there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allowed.name(host):
        _check(addresses, allowed)
    return tuple(addresses)


def _check(addresses: Sequence[str], allowed: Allowed) -> None:
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not (is_public(address) or allowed.address(address)):
            raise Blocked(f"it leads to {address}, which is not a public address")


def is_public(address: Address) -> bool:
    """Not this machine, not a private network, not a cloud's metadata service, in whatever disguise."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast
