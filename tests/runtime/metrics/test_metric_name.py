"""MetricName: the texts of Kafka's MBeans. test_yammer.py compares them with Kafka's own classes."""

from __future__ import annotations

import pytest

from tidelog.runtime.metrics import MetricName


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (MetricName("kafka.log", "LogManager", "remainingLogs"), "kafka.log:type=LogManager,name=remainingLogs"),
        (
            MetricName("kafka.log", "Log", "Size", (("topic", "orders"), ("partition", "0"))),
            "kafka.log:type=Log,name=Size,topic=orders,partition=0",
        ),
        (MetricName("kafka.server", "Fetch", "", (("client-id", "c"),)), "kafka.server:type=Fetch,client-id=c"),
        (MetricName("g", "T", "N", (("a", ""), ("b", "1"), ("c", ""))), "g:type=T,name=N,b=1"),
        (MetricName("g", "T", "N", (("logDirectory", "/data/k 1"),)), 'g:type=T,name=N,logDirectory="/data/k 1"'),
        (MetricName("g", "T", "N", (("t", "a_b-c.d%2A \t9"),)), "g:type=T,name=N,t=a_b-c.d%2A \t9"),
        (MetricName("g", "T", "N", (("t", 'a"b*c?d\\e\nf,g=h:i'),)), r'g:type=T,name=N,t="a\"b\*c\?d\\e\nf,g=h:i"'),
        (MetricName("g", "T", "N", (("t", "größe"),)), 'g:type=T,name=N,t="größe"'),
    ],
)  # fmt: skip
def test_the_text_of_a_name(name: MetricName, text: str) -> None:
    assert str(name) == text


def test_names_of_one_text_are_one() -> None:
    name = MetricName("g", "T", "N", (("a", ""), ("b", "1")))
    assert name == MetricName("g", "T", "N", (("b", "1"),))
    assert len({name, MetricName("g", "T", "N", (("b", "1"),))}) == 1
    assert name != MetricName("g", "T", "N", (("b", "2"),))
