"""Keys that Kafka's plug-ins read themselves: metrics reporters and the authorizer. Kafka's own tables lack them.

The columns are the fields of ``Key``. The ``tidelog.`` keys are our own. Sources: Kafka's ``KafkaCSVMetricsReporter``
and ``StandardAuthorizer``.
"""

from __future__ import annotations

from tidelog.config.columns import BOOLEAN, INT, LOW, MEDIUM, READ_ONLY, STRING, USED
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, Between

# fmt: off
REPORTER_KEYS = table(
    Key("kafka.csv.metrics.dir", STRING, "kafka_metrics", ANY, LOW, READ_ONLY,
        "Directory of the CSV reporter's files; existing files are never deleted.", effect=USED),
    Key("kafka.csv.metrics.reporter.enabled", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether the CSV reporter writes.", effect=USED),
    Key("tidelog.prometheus.host", STRING, "127.0.0.1", ANY, LOW, READ_ONLY,
        "Address at which the reporter for Prometheus serves.", effect=USED),
    Key("tidelog.prometheus.port", INT, 9404, Between(0, 65535), LOW, READ_ONLY,
        "Port at which the reporter for Prometheus serves; 0 for any free port.", effect=USED),
)
# fmt: on


# fmt: off
AUTHORIZER_KEYS = table(
    Key("allow.everyone.if.no.acl.found", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether everybody may do everything with a resource without access control entries.", effect=USED),
    Key("super.users", STRING, "", ANY, MEDIUM, READ_ONLY,
        "Principals that may do everything, with semicolons between them: User:admin;User:CN=broker,O=x.", effect=USED),
)
# fmt: on
