"""Keys that Kafka's metrics reporters read by themselves: they stand in no table of Kafka's.

The columns are the fields of ``Key``. Source: Kafka's ``KafkaCSVMetricsReporter``.
"""

from __future__ import annotations

from tidelog.config.columns import BOOLEAN, LOW, READ_ONLY, STRING
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY

# fmt: off
REPORTER_KEYS = table(
    Key("kafka.csv.metrics.dir", STRING, "kafka_metrics", ANY, LOW, READ_ONLY,
        "Directory of the CSV reporter's files; what is in it already is never deleted.", used=True),
    Key("kafka.csv.metrics.reporter.enabled", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether the CSV reporter writes.", used=True),
)
# fmt: on
