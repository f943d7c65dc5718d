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
_HANDED_OUT = ipaddress.ip_network("2000::/3")
"""All of IPv6 that was ever given to be reached by everybody. What is outside of it is some network's own."""
_FOR_DOCUMENTS = ipaddress.ip_network("3fff::/20")
_ISATAP = (0x00005EFE, 0x02005EFE)

_AMBIGUOUS = "ßς\u200c\u200d"
"""The two standards for international names make another host of a name with one of these."""


class Blocked(Exception):
    """This address may not be connected to. Nothing was sent."""


@dataclass(frozen=True)
class Allowed:
    """What the project allows beyond public https: host names and networks (`10.1.0.0/16`, `127.0.0.1`)."""

    entries: tuple[str, ...] = ()

    def name(self, host: str) -> bool:
        return ascii_host(host) in self._names() or self._literal(host)

    def address(self, address: Address) -> bool:
        return any(address in network for network in self._networks())

    def _names(self) -> set[str]:
        found = set()
        for entry in self.entries:
            try:
                found.add(ascii_host(entry))
            except ValueError:
                continue  # nothing that could be connected to is named so
        return found

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


def ascii_host(host: str) -> str:
    """A host's name as the network knows it: `münchen.example` is `xn--mnchen-3ya.example`. ValueError for one that is
    none, or may be two."""
    name = host.lower().rstrip(".")
    if name.isascii():
        return name
    for character in _AMBIGUOUS:
        if character in name:
            raise ValueError(
                f"the host {name} has the character {character!r}, which two standards read as two different hosts; "
                "write it in the form that begins with xn--"
            )
    return name.encode("idna").decode("ascii")


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
        inner = _inside(address)
        if inner is not None:
            return is_public(inner)
        if address not in _HANDED_OUT or address in _FOR_DOCUMENTS or address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that this one leads to, where it is only another way to write it."""
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _TRANSLATED or int(address) >> 32 & 0xFFFFFFFF in _ISATAP):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner
