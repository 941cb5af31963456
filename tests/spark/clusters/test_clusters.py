"""Real Spark in several processes: through Spark Connect, and on a cluster of processes.

Each run is a pytest process of its own, because a process can have only one kind of PySpark session. `make test` runs
tables and sinks through a Connect server whose executors are separate processes. The rest is slow: Connect without a
cluster, a cluster without Connect, both also with the oldest PySpark, and all other tests of real Spark on a cluster.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli.runner import rows as printed
from conftest import GoldenFactory
from golden_sets import FLIGHTS, unpack
from s3_server import put, s3_server
from spark.clusters.spark_home import CLUSTER, connect_server, make_spark_home
from spark.in_process import rows as rows_in_process
from spark_jvm import plain_environment

ROOT = Path(__file__).resolve().parents[3]
OLDEST = ROOT / ".venv-spark40" / "bin" / "python"
NEWEST = ROOT / ".venv" / "bin" / "python"
HERE = Path(__file__).parent.relative_to(ROOT)
CASES = HERE / "cluster_cases.py"
CONNECT_CASES = (HERE / "connect_cases.py", HERE.parent / "jobs" / "test_stage_progress.py")
QUICK = "(test_tables or test_sinks) and not every"
OWN_SESSIONS = ("clusters/test_clusters.py", "test_oldest_pyspark.py", "test_plain_session.py")
PAGE = (ROOT / "docs" / "spark-clusters.md").read_text()


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Yield the environment for reading a backup in object storage."""
    directory = unpack(FLIGHTS, "clean", tmp_path / "flights")
    with s3_server() as s3:
        yield plain_environment() | s3 | {"TIDELOG_TEST_BACKUP": put(directory, "broker-1", s3)}


def run_tests(interpreter: Path, environment: Mapping[str, str], *arguments: object) -> None:
    command = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "spark", *arguments]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=dict(environment), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]


@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_connect_and_a_cluster(environment: Mapping[str, str], tmp_path: Path) -> None:
    with connect_server(Path(sys.executable), tmp_path, CLUSTER, environment) as address:
        run_tests(Path(sys.executable), {**environment, "SPARK_REMOTE": address}, CASES, "-k", QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_every_case_on_connect(environment: Mapping[str, str], tmp_path: Path, interpreter: Path) -> None:
    with connect_server(interpreter, tmp_path, "local[2]", environment) as address:
        run_tests(interpreter, {**environment, "SPARK_REMOTE": address}, CASES, *CONNECT_CASES)


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_everything_on_a_cluster(environment: Mapping[str, str], tmp_path: Path, interpreter: Path) -> None:
    given = {"TIDELOG_TEST_MASTER": CLUSTER, "SPARK_HOME": str(make_spark_home(tmp_path / "spark", interpreter))}
    others = [f"--ignore={HERE.parent / name}" for name in OWN_SESSIONS]
    run_tests(interpreter, {**environment, **given}, CASES, HERE.parent, *others)


@pytest.mark.slow
def test_an_archive_is_all_that_executors_need(golden: GoldenFactory, tmp_path: Path) -> None:
    """The documented commands work although ``python3`` has no libraries."""
    subprocess.run([sys.executable, ROOT / "scripts" / "archive.py"], check=True)
    (tmp_path / "tidelog.tar.gz").symlink_to(ROOT / "dist" / "tidelog.tar.gz")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    home = make_spark_home(tmp_path / "spark", Path(sys.executable))
    places = (tmp_path / "bare" / "bin", home / "bin", os.environ["PATH"])
    given = plain_environment() | {"PATH": ":".join(map(str, places)), "MASTER": CLUSTER, "SPARK_HOME": str(home)}
    given.pop("PYTHONPATH", None)

    def bash(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=given, capture_output=True, text=True)

    section = PAGE.partition("## An archive for the executors")[2].partition("\n## ")[0]
    unpack_it, submit = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    submit = submit.replace("/mnt/disk1/kafka", str(golden(FLIGHTS)))
    assert bash(unpack_it).returncode == 0
    done = bash(submit)
    counted = {(row["topic"], row["partition"]): row["records"] for row in map(json.loads, done.stdout.splitlines())}
    assert counted == {(row["topic"], row["partition"]): row["records"] for row in printed("count", golden(FLIGHTS))}
    assert "which has no module tidelog" in bash(submit.replace("--archives tidelog.tar.gz#tidelog", "")).stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    "interpreter", [NEWEST, pytest.param(OLDEST, marks=pytest.mark.slow)], ids=["newest", "oldest"]
)
def test_the_jar_is_all_that_executors_need(golden: GoldenFactory, tmp_path: Path, interpreter: Path) -> None:
    """The executors of a cluster read although no Python of theirs can run. Only the driver's has tidelog."""
    home = make_spark_home(tmp_path / "spark", interpreter)
    given = plain_environment() | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": "/no-such-python"}
    command = [interpreter, HERE.parent / "jvm" / "jar_alone.py", CLUSTER, golden(FLIGHTS)]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    expected = rows_in_process(golden(FLIGHTS), subscribe="flights")
    assert result["offsets"] == [len(expected), sum(row["offset"] for row in expected)]
    assert result["python"], "the workers have a Python, so this shows nothing"
