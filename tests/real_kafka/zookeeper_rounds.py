"""Rounds of faults on a cluster that keeps its metadata in ZooKeeper, under traffic, and the check of everything.

A round makes one fault, ends it after a while, and ends itself when all replicas are in sync again, every broker shows
that, and every client has gone on. At the end the checks are those of ``under_traffic``.

=====================  =============================================================================================
kind                   what happens
=====================  =============================================================================================
leader, follower, …    SIGKILL of one or two brokers, as in ``cluster_rounds``; they start again after a while.
controller             SIGKILL of the broker that ``/controller`` names.
zookeeper              SIGKILL of one ZooKeeper server, which starts again after a while.
ensemble               SIGKILL of all ZooKeeper servers.
expired session        A broker reaches no ZooKeeper server until its session has expired.
expired controller     The same for the controller.
zombie controller      SIGSTOP of the controller until another broker is the controller. Then it goes on.
short loss             A broker reaches no ZooKeeper server, for less than its session.
clean restart          A broker shuts down cleanly and starts again.
=====================  =============================================================================================
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from real_kafka.cluster import BROKERS
from real_kafka.cluster_node import Program
from real_kafka.cluster_on_zookeeper import SESSION_S, ClusterOnZooKeeper
from real_kafka.cluster_rounds import PROPERTIES, choose_victims, under_traffic

KINDS: Final = (
    "leader",
    "expired session",
    "controller",
    "zookeeper",
    "zombie controller",
    "follower",
    "expired controller",
    "clean restart",
    "ensemble",
    "coordinator",
    "short loss",
    "two brokers",
)
_LONGEST_PAUSE_S: Final = 3.0
_PROTOCOLS: Final = ("classic",)
"""The protocols of groups that Kafka 3.9 has with ZooKeeper."""


def run_zookeeper_rounds(
    root: Path,
    rounds: int,
    *,
    servers: int,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    program: Program = Program.TIDELOG,
    brokers: Sequence[int] = BROKERS,
) -> Counter[str]:
    """Return the number of rounds of each kind. There are as many replicas as brokers."""
    draw, done = random.Random(seed), Counter[str]()
    properties = PROPERTIES if len(brokers) > 1 else _properties_of_one_broker()
    with (
        ClusterOnZooKeeper(root, servers=servers, program=program, brokers=brokers, properties=properties) as cluster,
        under_traffic(cluster, groups=_PROTOCOLS) as traffic,
    ):
        for number in range(rounds):
            kind = kinds[number % len(kinds)]
            started = time.monotonic()
            make_fault(cluster, kind, draw)
            cluster.wait_until_settled()
            traffic.wait_for_progress()
            done[kind] += 1
            print(f"round {number}, {kind}: {time.monotonic() - started:.1f} s")
    return done


def _properties_of_one_broker() -> dict[str, str]:
    factors = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys((*PROPERTIES, *factors), "1")


def make_fault(cluster: ClusterOnZooKeeper, kind: str, draw: random.Random) -> None:
    """Make a fault, and end it."""
    match kind:
        case "zookeeper" | "ensemble":
            _kill_servers(cluster, draw, are_all=kind == "ensemble")
        case "expired session":
            _expire(cluster, draw.choice(list(cluster.brokers)), draw)
        case "expired controller":
            _expire(cluster, cluster.controller_broker(), draw)
        case "zombie controller":
            _pause_controller(cluster, draw)
        case "short loss":
            number = draw.choice(list(cluster.brokers))
            cluster.disconnect_from_zookeeper(number, is_silent=draw.random() < 0.5)
            time.sleep(draw.uniform(0, SESSION_S / 2))
            cluster.heal(number)
        case "clean restart":
            number = draw.choice(list(cluster.brokers))
            cluster.stop(number)
            cluster.restart(number)
        case _:
            victims = [cluster.controller_broker()] if kind == "controller" else choose_victims(cluster, kind, draw)
            cluster.kill(*victims)
            time.sleep(draw.uniform(0, _LONGEST_PAUSE_S))
            cluster.restart(*victims)


def _kill_servers(cluster: ClusterOnZooKeeper, draw: random.Random, *, are_all: bool) -> None:
    servers = cluster.zookeeper.servers if are_all else [draw.choice(cluster.zookeeper.servers)]
    for server in servers:
        server.process.kill()
    time.sleep(draw.uniform(0, _LONGEST_PAUSE_S))
    cluster.zookeeper.start(*servers)


def _expire(cluster: ClusterOnZooKeeper, number: int, draw: random.Random) -> None:
    epoch = cluster.znodes.broker_epoch(number)
    cluster.disconnect_from_zookeeper(number, is_silent=draw.random() < 0.5)
    cluster.wait_until_unregistered(number)
    time.sleep(draw.uniform(0, _LONGEST_PAUSE_S))
    cluster.heal(number)
    cluster.wait_until_registered(number, after=epoch)


def _pause_controller(cluster: ClusterOnZooKeeper, draw: random.Random) -> None:
    number = cluster.controller_broker()
    epoch = cluster.znodes.broker_epoch(number)
    cluster.brokers[number].pause()
    cluster.wait_until_unregistered(number)
    if len(cluster.brokers) > 1:
        cluster.wait("another controller", lambda: cluster.znodes.controller() not in (None, number))
    time.sleep(draw.uniform(0, _LONGEST_PAUSE_S))
    cluster.brokers[number].go_on()
    cluster.wait_until_registered(number, after=epoch)
