"""A single JVM runs all lists of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential.kafka_side import KafkaSide


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaSide]:
    with KafkaSide() as side:
        yield side
