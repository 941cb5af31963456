"""A directory like a Spark distribution, made from an interpreter's PySpark, for tests that start servers."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spark_jvm import QUICK_START
from tidelog.spark import jar_path

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = "Spark Connect server started at: "
CLUSTER = "local-cluster[2,1,1024]"
"""Two executors in their own processes, with a core and 1024 MiB each."""


def make_spark_home(path: Path, interpreter: Path) -> Path:
    """Make a directory like Spark's own distribution. The workers of a cluster write below it."""
    command = [str(interpreter), "-c", "import importlib.util; print(importlib.util.find_spec('pyspark').origin)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    path.mkdir()
    for part in Path(found).parent.iterdir():
        (path / part.name).symlink_to(part)
    return path


@contextmanager
def connect_server(interpreter: Path, place: Path, master: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a Spark Connect server on a free port with the Python of ``interpreter``, and yield its address."""
    home = make_spark_home(place / "spark", interpreter)
    config = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.jars": jar_path(),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    settings = [word for key, value in config.items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", master, *settings, "spark-internal"]
    given = {**environment, "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(interpreter)}
    log = place / "connect-server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as server,
    ):
        try:
            yield f"sc://{_address(server, log)}"
        finally:
            server.terminate()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    while server.poll() is None:
        found = re.search(rf"{STARTED}\S*:(\d+)", log.read_text(errors="replace"))
        if found:
            return f"127.0.0.1:{found[1]}"
        time.sleep(0.2)
    raise AssertionError(f"the Spark Connect server ended: {log.read_text(errors='replace')[-4000:]}")
