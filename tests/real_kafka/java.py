"""Kafka's jars and our compiled Java programs: their paths, and the command line that runs one of their classes.

`make kafka-jars` and `make kafka-3-jars` fetch and compile them. `classpath` makes the jars of a release, so tests run
from a fresh clone without preparation.
``jars.mk`` in this directory explains why there are several releases. A class runs with the jars of NEWEST, and Kafka's
command line tools with those of TOOLS, unless the caller names a release. Each command keeps the JVM small and quick to
start: C1 only, the serial collector, and a class archive that the first broker writes. The archive saves more than half
of a broker's start.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
NEWEST = "4.4.0"
TOOLS = "4.3.1"
OLDER = ("4.2.0", "4.1.0")
RELEASES = (NEWEST, TOOLS, *OLDER)
"""All releases of Kafka 4, the newest first."""
KRAFT_3 = "3.9.1"
"""The last Kafka 3, which clusters that are mirrored still run."""

DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
OLDER_DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
"""The class of ``kafka-dump-log``, and its class before 4.3."""

JVM_LOG = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Switches without which the JVM would warn on stdout about a class archive of other jars."""

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")


@functools.cache
def ensure_jars(target: str = "kafka-jars") -> None:
    """Fetch the jars and compile our programs if necessary. Processes wait for one another."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "jars.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--silent", target], cwd=ROOT, check=True, timeout=900)


def class_archive(release: str) -> Path:
    """Return the file in which the first broker of a release saves its loaded classes for later ones."""
    return CACHE / "java" / release / "broker.jsa"


@functools.cache
def classpath(release: str) -> str:
    """Return our programs and every jar of Kafka in a fixed order: a class archive requires the same class path."""
    ensure_jars("kafka-3-jars" if release == KRAFT_3 else "kafka-jars")
    programs = CACHE / "java" / release / "programs.jar"
    return os.pathsep.join([str(programs), *sorted(str(jar) for jar in (CACHE / f"kafka-{release}").glob("*.jar"))])


def newest_release_with(main_class: str) -> str:
    """Return NEWEST, or TOOLS for Kafka's command line tools and for our program that runs them."""
    return TOOLS if main_class.startswith("org.apache.kafka.tools.") or main_class == "Tools" else NEWEST


def java_command(
    main_class: str,
    *arguments: str | os.PathLike[str],
    heap_mib: int = 256,
    switches: tuple[str, ...] = QUICK_START,
    log_level: str = "warn",
    release: str | None = None,
) -> list[str]:
    """Return the command that runs ``main_class`` with Kafka's jars; its log goes to stderr from ``log_level`` up."""
    release = release or newest_release_with(main_class)
    classes = classpath(release)
    kept = class_archive(release)
    archive = [f"-XX:SharedArchiveFile={kept}"] if switches == QUICK_START and kept.exists() else []
    return [
        "java",
        f"-Xmx{heap_mib}m",
        *JVM_LOG,
        *switches,
        *archive,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-cp",
        classes,
        main_class,
        *(os.fspath(argument) for argument in arguments),
    ]


def run_java(
    main_class: str,
    *arguments: str | os.PathLike[str],
    timeout: float = 400,
    heap_mib: int = 256,
    release: str | None = None,
) -> str:
    """Return the stdout of ``main_class``. Raise CalledProcessError with stderr in its notes if it fails."""
    return java_output(main_class, *arguments, timeout=timeout, heap_mib=heap_mib, release=release).stdout


def java_output(
    main_class: str,
    *arguments: str | os.PathLike[str],
    timeout: float = 400,
    heap_mib: int = 256,
    release: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``main_class`` like ``run_java``, and return stdout and stderr."""
    try:
        return subprocess.run(
            java_command(main_class, *arguments, heap_mib=heap_mib, release=release),
            check=True,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
        )
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise
