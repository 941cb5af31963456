"""docs/metrics.md: every metric with Kafka's name, from the tables that define them.

`make map` writes the page again. A test fails while the page and the tables differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.runtime.metrics import MetricDescription, MetricKind, runtime_metrics
from tidelog.server import server_metrics
from tidelog.server.fetching import session_metrics
from tidelog.server.groups import group_metrics
from tidelog.server.metadata import metadata_metrics
from tidelog.server.quotas import quota_metrics
from tidelog.server.replicas import replica_metrics
from tidelog.server.transactions import transaction_metrics
from tidelog.storage.manager.metrics import manager_metrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

TABLES: tuple[tuple[str, Iterable[MetricDescription]], ...] = (
    ("The log manager and its logs", manager_metrics.METRICS),
    ("What runs beside them", runtime_metrics.METRICS),
    ("The broker", server_metrics.METRICS),
    ("Quotas of clients", quota_metrics.METRICS),
    ("The cluster's metadata", metadata_metrics.METRICS),
    ("Partitions and fetch sessions", (*replica_metrics.METRICS, *session_metrics.METRICS)),
    ("The coordinators", (*group_metrics.METRICS, *transaction_metrics.METRICS)),
)

INTRODUCTION = """\
# Metrics

The tables are written by `make map` from those in the code; a test holds them beside what a running log manager
reports, and its names beside those of a real Kafka's `LogManager`.

What Kafka has too has Kafka's name, the text of its MBean: `kafka.log:type=Log,name=Size,topic=orders,partition=0`.
Dashboards and alerts made for Kafka find what they look for. Values have the names of the MBeans' attributes:

| kind | values |
|---|---|
| gauge | `Value` |
| meter | `Count`; `MeanRate`, `OneMinuteRate`, `FiveMinuteRate`, `FifteenMinuteRate`: in a second |
| histogram | `Count`, `Min`, `Max`, `Mean`, `StdDev`; `50thPercentile` and so on: 75, 95, 98, 99, 999 (99.9 %) |
| timer | those of a meter and of a histogram; in ms |

Rates have exponential weights and are carried on every 5 seconds; percentiles are of about the last five minutes. Both
are computed as Yammer's metrics, which Kafka uses, compute them.

Tags are in Kafka's order. `is-future` is `true` for the copy that a partition has in another log directory while it
moves there; else the tag is not there. What is deleted, or lies in a directory that is offline, is in no report.
"""

REPORTERS = """\
## Reporters
`kafka.metrics.reporters` names them, with commas between. Settings are those of a broker's properties file
(`BrokerConfig.load(path).settings`), those that only a reporter knows among them.

| name | what it does |
|---|---|
| `csv`, or Kafka's `kafka.metrics.KafkaCSVMetricsReporter` | CSV files, a file a metric |
| `prometheus` | an endpoint for Prometheus; needs `pip install 'tidelog[metrics]'` |
| `org.apache.kafka.common.metrics.JmxReporter` | nothing, and a line in the log: there is no JMX without a JVM |
| `module.Class` or `module:Class` | a class of one's own, see below |

### CSV files
| setting | default | |
|---|---|---|
| `kafka.csv.metrics.reporter.enabled` | `false` | it has to be enabled besides being named, as in Kafka |
| `kafka.csv.metrics.dir` | `kafka_metrics` | made where it is missing |
| `kafka.metrics.polling.interval.secs` | `10` | seconds from row to row |

A file has the metric's name and tags (`Size,topic=orders,partition=0.csv`) and the columns that Kafka's has. What is
different: **nothing in the directory is ever deleted**, while Kafka's reporter deletes it with all that is in it when
it starts. So files grow over restarts, and `time` is seconds since 1970, not since the start. Kafka's names a file
without tags, and so writes only one partition of all. A full disk, or a directory that is gone, costs a line in the
log; nothing else.

### Prometheus
| setting | default | |
|---|---|---|
| `tidelog.prometheus.host` | `127.0.0.1` | the address to serve at: by default nobody else's machine reaches it |
| `tidelog.prometheus.port` | `9404` | 0: any that is free; the log says which |

Names are those of the usual rules of Prometheus' JMX exporter for Kafka. A gauge is
`kafka_log_log_size{topic="orders",partition="0"}`; a meter is a counter without `PerSec`
(`kafka_server_brokertopicmetrics_bytesrejected_total`), a histogram or timer a summary with `quantile`, `_count` and
`_sum`. Plain text or OpenMetrics, whichever the scraper asks for.

### One's own
A class with three methods, made without arguments:

```python
class Printing:
    def configure(self, settings):  # the broker's settings, texts by key
        self.seconds = int(settings.get("printing.seconds", "60"))

    def start(self, registry, scheduler):
        self.registry = registry
        self.task = scheduler.schedule("printing", self.report, delay_ms=0, period_ms=self.seconds * 1000)

    def report(self):
        for sample in self.registry.samples():
            print(sample.name, sample.kind.value, dict(sample.values))

    def stop(self):
        self.task.cancel()
```

## From Python
A directory that is kept in order as a broker keeps it has the metrics, and the reporters that its properties file names
report until it is closed:

```python
import tidelog

with tidelog.open_directory("/var/lib/kafka", housekeeping=True, server_properties="server.properties") as directory:
    directory.log("orders", 0).append(b"value")
```

By hand, around a log manager:

```python
from pathlib import Path

from tidelog.runtime import ThreadScheduler
from tidelog.runtime.metrics import MetricRegistry
from tidelog.runtime.metrics.reporters import load_reporters
from tidelog.runtime.metrics.runtime_metrics import watch_runtime
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.metrics.manager_metrics import ManagerMetrics

scheduler, registry = ThreadScheduler(), MetricRegistry()
scheduler.startup()
metrics = ManagerMetrics(registry)
manager = LogManager(LOCAL, [Path("/var/lib/kafka")], scheduler=scheduler, on_flush=metrics.on_flush)
metrics.watch(manager, scheduler)
watch_runtime(registry, scheduler)
reporters = load_reporters({"kafka.metrics.reporters": "prometheus", "tidelog.prometheus.port": "0"})
reporters.start(registry, scheduler)
manager.startup()
...
manager.shutdown()
reporters.stop()
scheduler.shutdown()
```
"""


HEADER = ("| name | tags | kind | unit | meaning |", "|---|---|---|---|---|")


def table(title: str, descriptions: Iterable[MetricDescription]) -> str:
    lines = [f"## {title}"]
    group = None
    for one in sorted(descriptions, key=lambda one: (one.group, one.type)):
        if (one.group, one.type) != group:
            group = one.group, one.type
            lines += [
                "",
                f"### {one.group}:type={one.type}",
                "| name | tags | kind | unit | meaning |",
                "|---|---|---|---|---|",
            ]
        tags = ", ".join(f"`{tag}`" for tag in one.tags) or "–"
        if one.tags == ("topic",) and one.kind is MetricKind.METER:
            tags += "; and without, of all topics"
        lines.append(f"| `{one.name}` | {tags} | {one.kind.value} | {one.unit} | {one.meaning} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    return "\n".join([INTRODUCTION, *(table(title, rows) for title, rows in TABLES), REPORTERS])


if __name__ == "__main__":
    PAGE.write_text(page())
