"""The values of a registration: ranges of feature levels, and listeners as fields of metadata records."""

from __future__ import annotations

import pytest

from tidelog.replication.registration_request import BrokerEndpoint, VersionRange


@pytest.mark.parametrize(("level", "is_in"), [(0, False), (1, True), (2, True), (3, True), (4, False), ("2", False)])
def test_a_range_includes_both_ends(level: object, is_in: bool) -> None:
    assert (level in VersionRange(1, 3)) == is_in


@pytest.mark.parametrize(("oldest", "latest", "text"), [(1, 3, "1-3"), (2, 2, "2")])
def test_a_range_as_text(oldest: int, latest: int, text: str) -> None:
    assert str(VersionRange(oldest, latest)) == text


def test_an_endpoint_comes_back_from_its_fields() -> None:
    endpoint = BrokerEndpoint("SSL", "host", 9094, 1)
    assert endpoint.fields() == {"name": "SSL", "host": "host", "port": 9094, "securityProtocol": 1}
    assert BrokerEndpoint.of(endpoint.fields()) == endpoint
