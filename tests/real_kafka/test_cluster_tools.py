"""Kafka's tools for clusters print the same on three brokers of tidelog as on three brokers of Kafka."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from real_kafka.cluster_node import Program
from real_kafka.tool_session import run_session

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_tools_print_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    of_kafka, of_tidelog = (run_session(tmp_path_factory.mktemp("tools"), program) for program in Program)
    differences = [
        "\n".join([name, *unified_diff(of_kafka[name], of_tidelog[name], "Kafka", "tidelog", lineterm="", n=1)])
        for name in of_kafka
        if of_kafka[name] != of_tidelog[name]
    ]
    assert not differences, "\n\n".join(differences)
