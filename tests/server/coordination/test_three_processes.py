"""Three processes of tidelog under its controller: transactions and groups while their coordinators are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_kafka.cluster_rounds import OF_TIDELOG, run_rounds

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 6


@pytest.mark.timeout(600)
def test_coordinators_are_killed(tmp_path: Path) -> None:
    """No record is lost or doubled, transactions are all or nothing, and all replicas are equal at the end."""
    done = run_rounds(tmp_path, ROUNDS, programs=OF_TIDELOG, seed=4, kinds=("coordinator",))
    assert done == {"coordinator": ROUNDS}
