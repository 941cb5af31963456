"""Modules that a broker imports before it can serve: every module makes each start slower."""

from __future__ import annotations

import subprocess
import sys

NEVER = {"pyarrow", "hypothesis", "pyspark", "rich", "confluent_kafka"}
NOT_YET = {"kio", "isal", "cramjam", "lz4", "zstandard", "tomllib"}
"""Modules that are needed later or never: schemas of other APIs, codecs, the reader of a configuration."""
FIND = """
import sys
{code}
print(sorted({names!r} & {{name.partition(".")[0] for name in sys.modules}}))
"""


def loaded(code: str, names: set[str]) -> str:
    """Return the ``names`` that a new process has imported after ``code``."""
    script = FIND.format(code=code, names=names)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_a_broker_is_made_without_what_a_start_does_not_need() -> None:
    code = "import tidelog.server.process; from tidelog.server.handlers.cluster import api_versions"
    assert loaded(code, NEVER | NOT_YET) == "[]"


def test_messages_load_kio_and_kio_does_not_load_hypothesis() -> None:
    code = (
        "from tidelog.protocol.messages import write_response; from tidelog.protocol.api_key import ApiKey;"
        "write_response(ApiKey.API_VERSIONS, 0, {}); import hypothesis.version"
    )
    assert loaded(code, {"kio"}) == "['kio']"
    assert loaded(code.removesuffix("; import hypothesis.version"), {"hypothesis"}) == "[]"
