"""Keys that Kafka's ``StandardAuthorizer`` reads itself; Kafka's own tables do not have them.

The columns are the fields of ``Key``. Source: Kafka's ``StandardAuthorizer``.
"""

from __future__ import annotations

from tidelog.config.columns import BOOLEAN, LOW, MEDIUM, READ_ONLY, STRING, USED
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY

# fmt: off
AUTHORIZER_KEYS = table(
    Key("allow.everyone.if.no.acl.found", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether everybody may do everything with a resource without access control entries.", effect=USED),
    Key("super.users", STRING, "", ANY, MEDIUM, READ_ONLY,
        "Principals that may do everything, with semicolons between them: User:admin;User:CN=broker,O=x.", effect=USED),
)
# fmt: on
