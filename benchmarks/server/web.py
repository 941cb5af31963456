"""Row web: the pages of a large directory, and their cost for a broker that serves clients at the same time.

The first cases have no peer: a directory of 10,000 partitions with 100,000 segments and a log of segments of 1 GB, and
one with 100,000 groups and as many transactional ids. A page is timed warm, after its report is ready. The last cases
compare two brokers, one of them with ``--web`` and a viewer who loads two pages a second, one after the other: the page
of the broker, and that of the log. Kafka's ProducerPerformance writes to both in turns. Client, brokers and pages share
the cores.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Case, Unit, cpu_case
from benchmarks.server.brokers import TidelogBroker, renew_topic
from benchmarks.server.pair import LOADS
from benchmarks.server.performance import Entrance, Load, produce
from benchmarks.server.process import counted_cpu, resident_bytes
from benchmarks.server.web_pages import Viewer, WebProcess, get, ready, tour
from benchmarks.web_data import LARGE, coordinator_data, web_data
from benchmarks.worker import Done
from tidelog.web import urls

FIRST_LIMIT_MS = 1000
PAGE_LIMIT_MS = 300
MEMORY_LIMIT_MB = 200
LEAST_RATIO = 0.97
VISITS_A_SECOND = 2.0
_PAGE_RUNS = 15
_PRODUCE_RUNS = 31
_PLAIN = "without --web"


def cases(bench: Bench) -> Iterator[Case]:
    yield from _page_cases(bench)
    yield from _coordinator_cases(bench)
    yield from _broker_cases(bench)


def _page_cases(bench: Bench) -> Iterator[Case]:
    data = web_data(bench.scale)
    amount = f"{data.partitions:,} partitions, {data.segments:,} segments"
    yield Case(
        name=f"first page of a new process, {amount}",
        ours=lambda: _first_page(data.directory),
        limit=FIRST_LIMIT_MS,
        most_warm_ups=1,
    )
    starts = [urls.CLUSTER, urls.log_url("0", LARGE), urls.log_url("0", "topic-000-0"), urls.RETENTION]
    starts += [urls.records_url("0", LARGE, start=data.large_bytes // 200)]
    with WebProcess(data.directory) as web:
        for route, url in list(tour(web.base, starts)):
            yield _page_case(web, f"{route.pattern}: {url}", url)
        yield _memory_case(web, "memory after all of these pages")


def _coordinator_cases(bench: Bench) -> Iterator[Case]:
    data = coordinator_data(bench.scale)
    with WebProcess(data.directory) as web:
        for url in (urls.GROUPS, urls.group_url("group-000000"), urls.TRANSACTIONS, urls.PRODUCERS):
            yield _page_case(web, f"{data.groups:,} groups and transactional ids: {url}", url)
        yield _memory_case(web, f"{data.groups:,} groups and transactional ids: memory after these pages")


def _page_case(web: WebProcess, name: str, url: str) -> Case:
    return Case(name=name, ours=lambda: _page(web.base, url), limit=PAGE_LIMIT_MS, runs=_PAGE_RUNS, most_warm_ups=2)


def _memory_case(web: WebProcess, name: str) -> Case:
    return Case(
        name=name,
        ours=lambda: Done(seconds=resident_bytes(web.process_id) / 1e6, bytes=0, records=0),
        limit=MEMORY_LIMIT_MB,
        unit=Unit.MEGABYTES,
        runs=1,
        most_warm_ups=0,
    )


def _first_page(directory: Path) -> Done:
    with WebProcess(directory) as web:
        return _timed(lambda: get(web.base, urls.CLUSTER))


def _page(base: str, url: str) -> Done:
    ready(base, url)  # a report may have become too old
    return _timed(lambda: get(base, url))


def _timed(load: Callable[[], tuple[int, str]]) -> Done:
    begun_s = time.perf_counter()
    status, text = load()
    seconds = time.perf_counter() - begun_s
    if status not in (200, 202):
        raise RuntimeError(f"the page has status {status}: {text[:500]}")
    return Done(seconds=seconds, bytes=0, records=0)


def _broker_cases(bench: Bench) -> Iterator[Case]:
    home = bench.directory()
    plain = _Side(bench.enter(TidelogBroker(home / "plain")))
    viewed = _Side(bench.enter(TidelogBroker(home / "viewed", arguments=("--web", "127.0.0.1:0"))))
    runs = _PRODUCE_RUNS if bench.scale >= 1 else None
    for load in LOADS:
        load = Load(
            name=load.name,
            topic=load.topic,
            records=max(round(load.records * bench.scale), 1000),
            record_bytes=load.record_bytes,
        )
        yield Case(
            name=f"ProducerPerformance, {load.name}, acks=all, to a broker with --web and a viewer",
            peer=lambda load=load: plain.produce(load),
            ours=lambda load=load: viewed.produce_while_viewed(load),
            peer_name=_PLAIN,
            target=LEAST_RATIO,
            runs=runs,
            most_warm_ups=1,
            note=lambda _times: f"{viewed.visits / viewed.viewed_s:.1f} pages a second",
        )
        yield cpu_case(
            f"ProducerPerformance, {load.name}, acks=all: CPU time of the broker alone",
            plain.cpu[load],
            viewed.cpu[load],
            peer_name=_PLAIN,
            runs=runs,
        )


class _Side:
    """A broker, and the CPU times of its runs for a GB of values."""

    def __init__(self, broker: TidelogBroker) -> None:
        self.cpu: defaultdict[Load, list[Done]] = defaultdict(list)
        self.visits = 0
        self.viewed_s = 0.0
        self._broker = broker
        broker.start()

    def produce(self, load: Load) -> Done:
        renew_topic(self._broker, load.topic)
        return self._produced(load)

    def produce_while_viewed(self, load: Load) -> Done:
        renew_topic(self._broker, load.topic)
        pages = [urls.BROKER, urls.log_url("0", f"{load.topic}-0")]
        pages = [url for url in pages if ready(self._broker.pages, url)[0] == 200]
        begun_s = time.monotonic()
        with Viewer(self._broker.pages, pages, a_second=VISITS_A_SECOND) as viewer:
            done = self._produced(load)
        self.visits += viewer.visits
        self.viewed_s += time.monotonic() - begun_s
        return done

    def _produced(self, load: Load) -> Done:
        with counted_cpu(self._broker.process_id, load.bytes, self.cpu[load]):
            return produce(Entrance(bootstrap=self._broker.bootstrap), load).done
