"""Traffic, load and administrative requests on three processes while each of them ends, the controller too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.clients.test_ends_in_traffic import test_traffic_outlives_the_ends_of_its_broker
from server.clients.test_kill_during_administration import test_a_change_is_there_or_nothing_of_it as check_changes
from server.clients.test_kill_under_load import SEGMENT_BYTES, test_what_was_acknowledged_outlives_kills
from server.clients.three_brokers import ThreeBrokers, three_brokers

__all__ = [
    "test_traffic_outlives_the_ends_of_its_broker",
    "test_what_was_acknowledged_outlives_kills",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with three_brokers(tmp_path, {"log.segment.bytes": SEGMENT_BYTES}) as running:
        yield running


def test_a_change_is_there_or_nothing_of_it(server: ThreeBrokers) -> None:
    """Fewer rounds than with one broker: a round sends records to all topics so far, and waits for their replicas."""
    check_changes(server, 2)
