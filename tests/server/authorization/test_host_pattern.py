"""Host patterns of ACLs: addresses, the wildcard, and ranges (KIP-1276)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.server.authorization.host_pattern import fits, parse_range

ADDRESSES = ("10.1.2.3", "127.0.0.1", "1.2.3.4", "1.2.3.5", "fe80:0:0:0:0:0:0:1", "2001:db8:0:0:1:2:3:4", "")
IN_RANGE = {
    "10.0.0.0/8": {"10.1.2.3"},
    "10.1.2.3/8": {"10.1.2.3"},
    "010.0.0.0/08": {"10.1.2.3"},
    "10.0.0.0/0": {"10.1.2.3", "127.0.0.1", "1.2.3.4", "1.2.3.5"},
    "1.2.3.4/32": {"1.2.3.4"},
    "1.2.3.4/31": {"1.2.3.4", "1.2.3.5"},
    "fe80::/10": {"fe80:0:0:0:0:0:0:1"},
    "fe80::%eth0/10": {"fe80:0:0:0:0:0:0:1"},
    "::/0": {"fe80:0:0:0:0:0:0:1", "2001:db8:0:0:1:2:3:4"},
    "2001:db8::1/64": {"2001:db8:0:0:1:2:3:4"},
    "*": set(ADDRESSES),
    "1.2.3.4": {"1.2.3.4"},
}
"""The result of ``CidrUtils`` in Kafka 4.4.0 for each pattern."""
REFUSED = {
    "10.0.0.0/33": "Value [33] not in range [0,32]",
    "10.0.0/8": "Could not parse [10.0.0/8]",
    "10.0.0.256/8": "Value [256] not in range [0,255]",
    "10.0.0.0/": "Could not parse [10.0.0.0/]",
    "10.0.0.0/8/9": "Could not parse [10.0.0.0/8/9]",
    "10.0.0.0/+8": "Could not parse [10.0.0.0/+8]",
    "10.0.0.0/255.0.0.0": "Could not parse [10.0.0.0/255.0.0.0]",
    "2001:db8::/129": "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
    "g::/3": "Could not parse [g::]",
    "::ffff:10.0.0.0/104": "Could not parse [::ffff:10.0.0.0] - not an IPv6 address",
    "localhost/8": "Could not parse [localhost/8]",
}
"""Invalid ranges, and Kafka's error message for each."""


@pytest.mark.parametrize("pattern", IN_RANGE)
def test_addresses_are_in_the_ranges_that_kafka_puts_them_in(pattern: str) -> None:
    assert {address for address in ADDRESSES if fits(pattern, address)} == IN_RANGE[pattern]


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_range_that_does_not_parse_is_refused_and_fits_nobody(pattern: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_range(pattern)
    assert str(refusal.value) == REFUSED[pattern]
    assert not any(fits(pattern, address) for address in ADDRESSES)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(min_value=0, max_value=128))
def test_an_address_fits_if_its_first_bits_are_those_of_the_range(
    base: ipaddress.IPv4Address | ipaddress.IPv6Address,
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    prefix: int,
) -> None:
    bits = base.max_prefixlen
    prefix = min(prefix, bits)
    if isinstance(base, ipaddress.IPv6Address) and base.ipv4_mapped is not None:
        return
    same = base.version == address.version and int(base) >> (bits - prefix) == int(address) >> (bits - prefix)
    assert fits(f"{base}/{prefix}", str(address)) == (same or f"{base}/{prefix}" == str(address))


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_gives_an_answer(pattern: str, host: str) -> None:
    assert fits(pattern, host) in (True, False)
