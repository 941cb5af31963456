"""Rounds of network faults on a cluster under traffic, and the check of everything at the end.

A round disturbs the network, heals it after a while, and ends when all replicas are in sync again and every client has
gone on. Each round takes the next fault and the next place, so thirty rounds have all pairs.

==============  ====================================================================================================
fault           what happens
==============  ====================================================================================================
cut             No byte passes, in both directions. All bytes arrive after the fault, as TCP sends them again.
one-way cut     No byte passes in one direction.
delay           Bytes arrive late, also past some timeouts.
loss            Bytes are lost and sent again, or the connection is reset.
reset           Connections are reset, and new ones are refused.
half-open       The connections of now never pass a byte again. New ones pass.
==============  ====================================================================================================
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from real_kafka.cluster import CONTROLLER
from real_kafka.cluster_node import Program
from real_kafka.cluster_rounds import PROPERTIES, under_traffic, wait_until_in_sync
from real_kafka.faulty_cluster import CLIENTS, FaultyCluster
from tidelog.testing.cluster.route import Route, Way

FAULTS: Final = ("cut", "one-way cut", "delay", "loss", "reset", "half-open")
PLACES: Final = ("broker", "two brokers", "broker and controller", "controller", "clients")
"""The places of a fault: around one node, between two nodes, or between the clients and a broker."""
_TIMEOUTS: Final = ("replica.socket.timeout.ms", "controller.socket.timeout.ms", "request.timeout.ms")
_PROPERTIES: Final = {**PROPERTIES, **dict.fromkeys(_TIMEOUTS, "5000")}
"""Short timeouts let a node notice a half-open connection within a round."""
_SHORTEST_S, _LONGEST_S = 2.0, 8.0
"""The time of a fault. A broker's session lasts 2.5 seconds, and a follower may lag for two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault:
    fault: str
    ways: Sequence[tuple[int, int]]
    """The disturbed directions: sender and receiver."""
    delay_s: float
    loss: float


def run_fault_rounds(
    root: Path,
    rounds: int,
    *,
    programs: Mapping[int, Program],
    controllers: Sequence[int] = (CONTROLLER,),
    seed: int = 0,
    first: int = 0,
) -> Counter[str]:
    """Return the number of rounds of each fault. ``first`` is the number of the first round."""
    draw, done = random.Random(seed), Counter[str]()
    with (
        FaultyCluster(root, programs=programs, controllers=controllers, properties=_PROPERTIES) as cluster,
        under_traffic(cluster, through_links=True) as traffic,
    ):
        for number in range(first, first + rounds):
            fault, place = FAULTS[number % len(FAULTS)], PLACES[number % len(PLACES)]
            disturb(cluster, choose_fault(cluster, fault, place, draw))
            time.sleep(draw.uniform(_SHORTEST_S, _LONGEST_S))
            cluster.heal()
            wait_until_in_sync(cluster)
            traffic.wait_for_progress()
            done[fault] += 1
    return done


def choose_fault(cluster: FaultyCluster, fault: str, place: str, draw: random.Random) -> NetworkFault:
    """Choose the nodes, and how bad the fault is."""
    brokers, controllers = list(cluster.brokers), list(cluster.controllers)
    match place:
        case "broker":
            one = draw.choice(brokers)
            others = [CLIENTS, *cluster.numbers]
        case "two brokers":
            one, *others = draw.sample(brokers, 2)
        case "broker and controller":
            one, others = draw.choice(brokers), [draw.choice(controllers)]
        case "controller":
            one, others = draw.choice(controllers), cluster.numbers
        case _:
            one, others = draw.choice(brokers), [CLIENTS]
    ways = [(one, other) for other in others if other != one]
    back = [(other, sender) for sender, other in ways]
    if fault == "one-way cut":
        ways = draw.choice((ways, back))
    else:
        ways += back
    return NetworkFault(fault=fault, ways=ways, delay_s=draw.uniform(0.05, 1.5), loss=draw.uniform(0.1, 0.5))


def disturb(cluster: FaultyCluster, fault: NetworkFault) -> None:
    """Begin a fault on all its ways."""
    for sender, receiver in fault.ways:
        for route, way in cluster.routes(sender, receiver):
            _disturb_way(route, way, fault)


def _disturb_way(route: Route, way: Way, fault: NetworkFault) -> None:
    match fault.fault:
        case "cut" | "one-way cut":
            route.freeze(way)
        case "delay":
            route.delay(fault.delay_s, way)
        case "loss":
            route.lose(fault.loss, way)
        case "reset":
            route.disconnect()
        case _:
            route.forget()
