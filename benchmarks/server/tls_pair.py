"""Both brokers with a TLS listener and a self-made key, and clients that trust it.

The key is on the curve P-256 and TLS is 1.3. The two ends choose the cipher as usual. Topics are created through the
open listener that each broker also has.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.server.brokers import TidelogBroker, kafka_broker
from benchmarks.server.pair import Pair, Side
from benchmarks.server.performance import Entrance
from server.security.certificates import write_files
from tidelog.testing.broker.kept_port import keep_port


def tls_pair(directory: Path, enter: Callable[[AbstractContextManager[Any]], Any], scale: float) -> Pair:
    """Start both brokers. ``enter`` keeps a broker until the run ends."""
    files = write_files(directory / "keys")
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
    }
    properties = directory / "client.properties"
    trust = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(files.authority)}
    properties.write_text("".join(f"{key}={value}\n" for key, value in trust.items()))
    place = enter(keep_port())
    kafkas_address = f"127.0.0.1:{place.getsockname()[1]}"
    kafka = kafka_broker(directory, settings, more_listeners=f"SSL://{kafkas_address}")
    tidelog = TidelogBroker(directory / "tidelog", settings, more_listeners="SSL://127.0.0.1:0")
    for broker in (kafka, tidelog):
        enter(broker)
        broker.start()
    return Pair(
        Side(kafka, Entrance(bootstrap=kafkas_address, properties=properties)),
        Side(tidelog, Entrance(bootstrap=tidelog.tls_bootstrap, properties=properties)),
        scale,
    )
