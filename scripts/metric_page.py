"""docs/metrics.md: every metric with Kafka's name, from the tables that define them.

`make map` writes the page again. A test fails while the page and the tables differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.runtime.metrics import MetricDescription, MetricKind, runtime_metrics
from tidelog.server import server_metrics
from tidelog.server.fetching import session_cache
from tidelog.server.groups import group_metrics
from tidelog.server.metadata.kraft import metadata_metrics
from tidelog.server.metadata.zookeeper import session_metrics
from tidelog.server.quotas import quota_metrics
from tidelog.server.replicas import replica_metrics
from tidelog.server.transactions import transaction_metrics
from tidelog.storage.manager.metrics import manager_metrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

TABLES: tuple[tuple[str, Iterable[MetricDescription]], ...] = (
    ("The log manager and its logs", manager_metrics.METRICS),
    ("Background work", runtime_metrics.METRICS),
    ("The broker", server_metrics.METRICS),
    ("Quotas of clients", quota_metrics.METRICS),
    ("The cluster's metadata", metadata_metrics.METRICS),
    ("The session with ZooKeeper", session_metrics.METRICS),
    ("Partitions and fetch sessions", (*replica_metrics.METRICS, *session_cache.METRICS)),
    ("The coordinators", (*group_metrics.METRICS, *transaction_metrics.METRICS)),
)

INTRODUCTION = """\
# Metrics

`make map` writes these tables from the code. Tests compare them with the report of a running log manager, and the names
with those of a real Kafka's `LogManager`.

A metric that Kafka also has bears Kafka's name, the text of its MBean:
`kafka.log:type=Log,name=Size,topic=orders,partition=0`. Dashboards and alerts for Kafka work unchanged. Values have the
names of the MBeans' attributes:

| kind | values |
|---|---|
| gauge | `Value` |
| meter | `Count`; `MeanRate`, `OneMinuteRate`, `FiveMinuteRate`, `FifteenMinuteRate`: per second |
| histogram | `Count`, `Min`, `Max`, `Mean`, `StdDev`; `50thPercentile` and so on: 75, 95, 98, 99, 999 (99.9 %) |
| timer | the values of a meter and of a histogram; in ms |

Rates have exponential weights and are updated every 5 seconds. Percentiles cover about the last five minutes. Both are
computed as Yammer's metrics, which Kafka uses, compute them.

Tags have Kafka's order. While a partition moves to another log directory, its copy there has the tag `is-future` with
the value `true`. No other log has this tag. Deleted logs and logs in an offline directory are in no report.
"""

REPORTERS = """\
## Reporters
`kafka.metrics.reporters` lists them, separated by commas. Their settings are in the broker's properties file
(`BrokerConfig.load(path).settings`), including the settings that only a reporter knows.

| name | effect |
|---|---|
| `csv`, or Kafka's `kafka.metrics.KafkaCSVMetricsReporter` | CSV files, one for each metric |
| `prometheus` | an endpoint for Prometheus; needs `pip install 'tidelog[metrics]'` |
| `org.apache.kafka.common.metrics.JmxReporter` | nothing, and a line in the log: there is no JMX without a JVM |
| `module.Class` or `module:Class` | a class of your own, see below |

### CSV files
| setting | default | |
|---|---|---|
| `kafka.csv.metrics.reporter.enabled` | `false` | a named reporter must also be enabled, as in Kafka |
| `kafka.csv.metrics.dir` | `kafka_metrics` | created if it is missing |
| `kafka.metrics.polling.interval.secs` | `10` | seconds from row to row |

A file has the metric's name and tags (`Size,topic=orders,partition=0.csv`), and the columns of Kafka's file. Two things
differ. **Nothing in the directory is ever deleted**, while Kafka's reporter deletes the directory when it starts. So
files grow over restarts, and `time` is seconds since 1970, not since the start. Kafka's reporter names a file without
tags, so it writes only one partition of all. A full disk or a missing directory costs only a line in the log.

### Prometheus
| setting | default | |
|---|---|---|
| `tidelog.prometheus.host` | `127.0.0.1` | the address of the endpoint; by default other machines cannot reach it |
| `tidelog.prometheus.port` | `9404` | 0 selects any free port; the log shows it |

Names follow the usual rules of Prometheus' JMX exporter for Kafka. A gauge is
`kafka_log_log_size{topic="orders",partition="0"}`; a meter is a counter without `PerSec`
(`kafka_server_brokertopicmetrics_bytesrejected_total`), a histogram or timer a summary with `quantile`, `_count` and
`_sum`. The format is plain text or OpenMetrics, as the scraper requests.

### Your own
A class with three methods and a constructor without arguments:

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
A directory with `housekeeping=True` has the metrics too. The reporters in its properties file report until it is
closed:

```python
import tidelog

with tidelog.open_directory("/var/lib/kafka", housekeeping=True, server_properties="server.properties") as directory:
    directory.log("orders", 0).append(b"value")
```

Around a log manager of your own:

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
