"""A consumer that a test kills. The command line is ``dying_member.py BOOTSTRAP GROUP PROTOCOL``."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer

bootstrap, group, protocol = sys.argv[1:]
settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
if protocol == "classic":
    settings |= {"session.timeout.ms": "1000", "heartbeat.interval.ms": "200"}
consumer = Consumer(settings)
consumer.subscribe(["t"])
while True:
    consumer.poll(0.05)
