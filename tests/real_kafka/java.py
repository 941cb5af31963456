"""Where Kafka's jars and our compiled Java programs are, and the command line that runs a class of theirs.

`make kafka-jars` fetches and compiles; `classpath` calls it, so a test run from a fresh clone needs no step before.
Each command keeps the JVM small and quick to start: C1 only, the serial collector, and a class archive that the first
broker leaves behind (it saves more than half of a broker's start).
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
KAFKA_JARS = CACHE / "kafka-4.1.0"
PROGRAMS = CACHE / "java" / "programs.jar"
CLASS_ARCHIVE = CACHE / "java" / "broker.jsa"

JVM_LOG = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""The JVM would warn of a class archive made for other jars, and on stdout."""

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")


@functools.cache
def ensure_jars() -> None:
    """Fetch the jars and compile our programs where that has not been done; processes wait for one another."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "jars.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--silent", "kafka-jars"], cwd=ROOT, check=True, timeout=600)


@functools.cache
def classpath() -> str:
    """Our programs and every jar of Kafka, in a fixed order: a class archive is only taken for the same class path."""
    ensure_jars()
    return os.pathsep.join([str(PROGRAMS), *sorted(str(jar) for jar in KAFKA_JARS.glob("*.jar"))])


def java_command(
    main_class: str,
    *arguments: str | os.PathLike[str],
    heap_mib: int = 256,
    switches: tuple[str, ...] = QUICK_START,
    log_level: str = "warn",
) -> list[str]:
    """The command that runs ``main_class`` with Kafka's jars; its log goes to stderr from ``log_level`` up."""
    archive = [f"-XX:SharedArchiveFile={CLASS_ARCHIVE}"] if switches == QUICK_START and CLASS_ARCHIVE.exists() else []
    return [
        "java",
        f"-Xmx{heap_mib}m",
        *JVM_LOG,
        *switches,
        *archive,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-cp",
        classpath(),
        main_class,
        *(os.fspath(argument) for argument in arguments),
    ]


def run_java(main_class: str, *arguments: str | os.PathLike[str], timeout: float = 400, heap_mib: int = 256) -> str:
    """What ``main_class`` prints to stdout. A failure raises CalledProcessError with stderr in its notes."""
    return java_output(main_class, *arguments, timeout=timeout, heap_mib=heap_mib).stdout


def java_output(
    main_class: str, *arguments: str | os.PathLike[str], timeout: float = 400, heap_mib: int = 256
) -> subprocess.CompletedProcess[str]:
    """As ``run_java``, with stderr beside stdout."""
    try:
        return subprocess.run(
            java_command(main_class, *arguments, heap_mib=heap_mib),
            check=True,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
        )
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise
