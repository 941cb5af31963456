"""The switches of the JVM for every Spark session that tests start, and an environment without Spark's settings.

A session in a test lives for seconds. Its JVM compiles with C1 only, which costs half the CPU time.
"""

from __future__ import annotations

import os

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SWITCHES = "SPARK_SUBMIT_OPTS"
"""The variable from which ``spark-submit``, and with it PySpark, takes the switches of the driver's JVM."""

_SETTINGS = ("PYSPARK", "SPARK", "PYTEST", "TIDELOG_TEST")


def set_switches() -> None:
    """Let every session of this process and of its children start quickly."""
    os.environ[SWITCHES] = QUICK_START


def plain_environment() -> dict[str, str]:
    """Return this process's environment without the variables that configure Spark or its tests.

    The switches of the JVM stay.
    """
    return {name: value for name, value in os.environ.items() if name == SWITCHES or not name.startswith(_SETTINGS)}
