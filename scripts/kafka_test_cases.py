"""The names of Kafka's own test cases, read from the class files in its test jars.

``python scripts/kafka_test_cases.py`` reads the jars that ``make kafka-jars`` fetched and writes
``tests/project/kafka_test_cases.json``: each class of ``tests/project/parity.toml`` with its cases, sorted. No JVM
runs: a class file (JVM specification, chapter 4) is a pool of constants followed by tables, and a test case is a method
with one of JUnit's or jqwik's annotations. A class may stand in several packages, as UnifiedLogTest does while it moves
from Scala to Java, and in several jars.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".cache" / "kafka-cases-4.1.0"
NAMES = ROOT / "tests" / "project" / "kafka_test_cases.json"

CLASSES = (
    "AbstractFetcherThreadTest",
    "AddPartitionsToTxnManagerTest",
    "AlterPartitionManagerTest",
    "BrokerLifecycleManagerTest",
    "CleanShutdownFileHandlerTest",
    "ClusterControlManagerTest",
    "DumpLogSegmentsTest",
    "EligibleLeaderReplicasIntegrationTest",
    "FetchFromFollowerIntegrationTest",
    "IsrExpirationTest",
    "LeaderEpochCheckpointFileWithFailureHandlerTest",
    "LeaderEpochFileCacheTest",
    "LeaderEpochIntegrationTest",
    "LocalLogTest",
    "LogCleanerIntegrationTest",
    "LogCleanerLagIntegrationTest",
    "LogCleanerManagerTest",
    "LogCleanerParameterizedIntegrationTest",
    "LogCleanerTest",
    "LogConfigTest",
    "LogDirFailureTest",
    "LogLoaderTest",
    "LogManagerTest",
    "LogRecoveryTest",
    "LogSegmentTest",
    "LogSegmentsTest",
    "LogValidatorTest",
    "OffsetCheckpointFileWithFailureHandlerTest",
    "OffsetIndexTest",
    "OffsetMapTest",
    "PartitionTest",
    "ProducerStateManagerTest",
    "QuorumControllerTest",
    "RemoteLeaderEndPointTest",
    "ReplicaFetcherThreadTest",
    "ReplicaManagerTest",
    "ReplicationControlManagerTest",
    "ReplicationQuotasTest",
    "TimeIndexTest",
    "TransactionIndexTest",
    "TransactionMarkerChannelManagerTest",
    "TransactionMarkerRequestCompletionHandlerTest",
    "UncleanLeaderElectionTest",
    "UnifiedLogTest",
    "VerificationGuardTest",
)
TEST_ANNOTATIONS = {
    "Lnet/jqwik/api/Property;",
    "Lorg/junit/jupiter/api/RepeatedTest;",
    "Lorg/junit/jupiter/api/Test;",
    "Lorg/junit/jupiter/api/TestFactory;",
    "Lorg/junit/jupiter/api/TestTemplate;",
    "Lorg/junit/jupiter/params/ParameterizedTest;",
}

MAGIC = 0xCAFEBABE
UTF8, LONG, DOUBLE = 1, 5, 6
SIZE_TAGS = {2: (7, 8, 16, 19, 20), 3: (15,), 4: (3, 4, 9, 10, 11, 12, 17, 18), 8: (5, 6)}
CONSTANT_SIZES = {tag: size for size, tags in SIZE_TAGS.items() for tag in tags}
"""The bytes after the tag of each kind of constant except UTF8, which carries its length."""


class ClassFile:
    """A cursor over a class file. ``test_cases`` moves from its first byte to the end of its methods."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, code: str) -> int:
        """Return the next big-endian number. ``code`` is a format of ``struct``."""
        (number,) = struct.unpack_from(">" + code, self.data, self.position)
        self.position += struct.calcsize(code)
        return int(number)

    def test_cases(self) -> Iterator[str]:
        """Yield the names of the methods that JUnit runs."""
        if self.take("I") != MAGIC:
            raise ValueError("not a class file")
        self.position += 4  # version
        texts = self.constants()
        self.position += 6  # access, this class, its superclass
        for _ in range(self.take("H")):
            self.position += 2  # interfaces
        for _ in range(self.take("H")):
            self.member(texts)  # fields
        for _ in range(self.take("H")):
            name, annotations = self.member(texts)
            if annotations & TEST_ANNOTATIONS:
                yield name

    def constants(self) -> dict[int, str]:
        """Return the texts of the constant pool by their index, and skip the other constants."""
        texts = {}
        count, index = self.take("H"), 1
        while index < count:
            tag = self.take("B")
            if tag == UTF8:
                size = self.take("H")
                texts[index] = self.data[self.position : self.position + size].decode(errors="replace")
                self.position += size
            else:
                self.position += CONSTANT_SIZES[tag]
            index += 2 if tag in (LONG, DOUBLE) else 1
        return texts

    def member(self, texts: dict[int, str]) -> tuple[str, set[str]]:
        """Return the name of a field or method, and the types of its annotations."""
        self.position += 2  # access
        name = texts[self.take("H")]
        self.position += 2  # descriptor
        annotations: set[str] = set()
        for _ in range(self.take("H")):
            attribute, size = texts[self.take("H")], self.take("I")
            end = self.position + size
            if attribute == "RuntimeVisibleAnnotations":
                annotations = {self.annotation(texts) for _ in range(self.take("H"))}
            self.position = end
        return name, annotations

    def annotation(self, texts: dict[int, str]) -> str:
        kind = texts[self.take("H")]
        for _ in range(self.take("H")):
            self.position += 2  # the parameter's name
            self.pass_value(texts)
        return kind

    def pass_value(self, texts: dict[int, str]) -> None:
        """Skip the value of an annotation's parameter."""
        match chr(self.take("B")):
            case "@":
                self.annotation(texts)
            case "[":
                for _ in range(self.take("H")):
                    self.pass_value(texts)
            case "e":
                self.position += 4
            case _:
                self.position += 2


def read_cases(jars: Iterable[Path]) -> dict[str, list[str]]:
    """Map each class with its package to the names of its cases, both sorted, over all ``jars``."""
    cases: defaultdict[str, set[str]] = defaultdict(set)
    for jar in jars:
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                path = PurePosixPath(name)
                if path.suffix == ".class" and path.stem in CLASSES:
                    cases[".".join(path.with_suffix("").parts)] |= set(ClassFile(files.read(name)).test_cases())
    return {name: sorted(cases[name]) for name in sorted(cases)}


def as_text(cases: dict[str, list[str]]) -> str:
    return json.dumps(cases, indent=1) + "\n"


if __name__ == "__main__":
    NAMES.write_text(as_text(read_cases(sorted(JARS.glob("*.jar")))))
