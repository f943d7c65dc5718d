"""Which addresses are public: not by a list of what is not, but by what was handed out for all to reach."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from twice.senders.address import is_public

PRIVATE = [
    "fec0::1",  # site-local, long deprecated and still routed inside networks
    "feff:ffff::1",
    "64:ff9b:1::a00:1",  # a translator of one's own network
    "::a00:1",  # IPv4-compatible: 10.0.0.1
    "::5db8:d822",  # and 93.184.216.34 in the same clothes
    "::ffff:0:127.0.0.1",  # translated by a stateless translator
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",  # 169.254.169.254 behind a translator
    "2002:a00:1::1",  # 6to4 of 10.0.0.1
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",  # Teredo
    "2a00:1450::5efe:10.0.0.1",  # ISATAP of 10.0.0.1
    "2a00:1450::200:5efe:10.0.0.1",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",  # for documents
    "100::1",
    "5f00::1",
    "::",
    "::1",
    "100.64.0.1",
    "192.168.1.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
]
PUBLIC = [
    "93.184.216.34",
    "2a00:1450:4001:80b::200e",
    "2606:4700::6810:84e5",
    "64:ff9b::5db8:d822",
    "2002:5db8:d822::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_for_all_to_reach_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_for_all_to_reach_is_public(address: str) -> None:
    assert is_public(ip_address(address))
