"""The place of the JVM reader's jar: next to this module, if the package was built where a JDK and PySpark were.

A session that has the jar on its class path reads records in the JVM. Without it, the same format reads by Python.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.model import ConfigError

JAR = Path(__file__).with_name("tidelog-spark.jar")
SPARK_JARS = "spark.jars"
"""Spark's setting for the jars of a session: a list with commas."""


def jar_path() -> str:
    """Return the jar's path, for ``spark.jars`` or ``--jars``. Raise ConfigError if this installation has none."""
    if not JAR.exists():
        raise ConfigError(
            f"This installation has no jar of the JVM reader ({JAR}): install a wheel that was built with a JDK 17, or "
            "run 'make jar' in a clone"
        )
    return str(JAR)


def with_jar(jars: str | None) -> str | None:
    """Return a value of ``spark.jars`` with the reader's jar added, or the given value if there is no jar."""
    if not JAR.exists():
        return jars
    given = [part for part in (jars or "").split(",") if part.strip()]
    return ",".join([*given, str(JAR)])
