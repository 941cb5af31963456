"""Runs of ``kafka-dump-log`` whose output is stored: the files, the damage and the switches of each.

``data/dump/4.2/NAME.out`` and ``NAME.err`` hold the output of Kafka 4.2.0. ``data/dump/4.3`` holds the output of Kafka
4.3.1 if it differs. ``real_kafka/test_dump_reference.py`` runs the cases again and compares. In ``.err`` files
``DIRECTORY`` stands for the directory of the run, and only the first line of a stack trace is kept. Kafka's own
``MemoryRecords`` wrote the logs in ``data/logs``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from golden_sets import FLIGHTS, FORMATS, SCENARIOS
from tidelog.inspect.dump.options import KafkaFormatOptions, PayloadDecoder, ToolRelease, ValueClass
from tidelog.storage.producer import ProducerEntry, format_snapshot, parse_snapshot

DATA = Path(__file__).parent / "inspect" / "data"
OUTPUTS = DATA / "dump"
DIRECTORY = "DIRECTORY"

Golden = Callable[..., Path]
FIRST = "00000000000000000000"


@dataclass(frozen=True)
class DumpCase:
    """A run. ``source`` is (set, partition) of a golden directory, or the name of a log in ``data/logs``."""

    name: str
    source: tuple[str, str] | str
    files: tuple[str, ...]
    switches: tuple[str, ...] = ()
    damage: Callable[[Path], None] | None = None

    def prepare(self, golden: Golden, directory: Path) -> list[str]:
        """Put the files into ``directory`` and return their names as the command line lists them."""
        directory.mkdir()
        if isinstance(self.source, str):
            shutil.copy(DATA / "logs" / f"{self.source}.log", directory / f"{FIRST}.log")
        else:
            set_name, partition = self.source
            for path in (golden(set_name) / partition).iterdir():
                shutil.copy(path, directory / path.name)
        if self.damage is not None:
            self.damage(directory)
        return list(self.files)

    @property
    def is_printed_otherwise(self) -> bool:
        """True if the output of 4.3 differs from that of 4.2."""
        return self._kept(ToolRelease.KAFKA_4_3, "out").exists()

    def stdout(self, release: ToolRelease) -> str:
        return self._kept(self._first_like(release), "out").read_bytes().decode()

    def stderr(self, release: ToolRelease) -> list[str]:
        path = self._kept(self._first_like(release), "err")
        return path.read_text().splitlines() if path.exists() else []

    def keep(self, release: ToolRelease, out: bytes, errors: list[str]) -> None:
        """Write the output of ``release``, unless it equals the output of the release before it."""
        before = ToolRelease.KAFKA_4_2
        if release is before or (out.decode(), errors) != (self.stdout(before), self.stderr(before)):
            self._kept(release, "out").write_bytes(out)
            if errors:
                self._kept(release, "err").write_text("".join(f"{line}\n" for line in errors))

    def _first_like(self, release: ToolRelease) -> ToolRelease:
        return release if self._kept(release, "out").exists() else ToolRelease.KAFKA_4_2

    def _kept(self, release: ToolRelease, kind: str) -> Path:
        return OUTPUTS / release / f"{self.name}.{kind}"


def options_of(switches: tuple[str, ...], release: ToolRelease = ToolRelease.KAFKA_4_3) -> KafkaFormatOptions:
    """Convert Kafka's switches to our options."""
    given = {name.removeprefix("--"): value for name, _, value in (switch.partition("=") for switch in switches)}
    decoders = [decoder for decoder in PayloadDecoder if decoder.value in given]
    return KafkaFormatOptions(
        release=release,
        deep_iteration="deep-iteration" in given,
        print_data_log="print-data-log" in given,
        decoder=decoders[0] if decoders else PayloadDecoder.PLAIN,
        key_class=ValueClass.parse(given["key-decoder-class"]) if "key-decoder-class" in given else None,
        value_class=ValueClass.parse(given["value-decoder-class"]) if "value-decoder-class" in given else None,
        index_sanity_check="index-sanity-check" in given,
        verify_index_only="verify-index-only" in given,
        skip_record_metadata="skip-record-metadata" in given,
        max_message_size=int(given.get("max-message-size", 5 * 1024 * 1024)),
        max_bytes=int(given.get("max-bytes", 2**31 - 1)),
    )


def _overwrite(name: str, position: int, data: bytes) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        with (directory / name).open("r+b") as file:
            file.seek(position)
            file.write(data)

    return damage


def _cut(name: str, size: int) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        with (directory / name).open("r+b") as file:
            file.truncate(size)

    return damage


def _zeros_behind(directory: Path) -> None:
    """Append zeros to the indexes, as an unclean shutdown of a broker leaves them."""
    _overwrite(INDEX, 24, bytes(800))(directory)
    _overwrite(TIME_INDEX, 36, bytes(1200))(directory)


def _metadata_snapshots(directory: Path) -> None:
    for name in METADATA_SNAPSHOTS:
        shutil.copy(directory / LOG, directory / name)


def _snapshot_without_batches(directory: Path) -> None:
    """Insert a producer without batches between two others: only a marker's epochs are known of it."""
    path = directory / SNAPSHOT
    first, second, *_ = parse_snapshot(path.read_bytes())
    path.write_bytes(format_snapshot([first, ProducerEntry(producer_id=7, coordinator_epoch=3), second]))


def _again(name: str, times: int) -> Callable[[Path], None]:
    """Return a damage that repeats the file's bytes ``times`` more times."""

    def damage(directory: Path) -> None:
        path = directory / name
        path.write_bytes(path.read_bytes() * (times + 1))

    return damage


def _remove_log(directory: Path) -> None:
    (directory / LOG).unlink()


PLAIN = (SCENARIOS, "plain-0")
TXN = (SCENARIOS, "txn-0")
COMPACTED = (SCENARIOS, "compacted-0")
STATE = (FLIGHTS, "__transaction_state-3")
INDEX, TIME_INDEX, LOG = f"{FIRST}.index", f"{FIRST}.timeindex", f"{FIRST}.log"
SNAPSHOT = "00000000000000001201.snapshot"
CLASS = "org.apache.kafka.tools.api."
METADATA_SNAPSHOTS = ("bootstrap.checkpoint", "00000000000000000007-0000000003.checkpoint")
WRONG_ENTRIES = b"\0\0\0\x3f\0\0\x20\x43\0\0\0\x5c"

CASES = [
    DumpCase("shallow", PLAIN, (LOG,)),
    DumpCase("deep", COMPACTED, ("00000000000000002149.log", "00000000000000002323.log"), ("--deep-iteration",)),
    DumpCase("max-bytes", PLAIN, (LOG,), ("--print-data-log", "--max-bytes=3000")),
    DumpCase("skip-metadata", TXN, (LOG,), ("--skip-record-metadata", "--deep-iteration", "--max-bytes=4000")),
    DumpCase("skip-metadata-data", TXN, (LOG,), ("--skip-record-metadata", "--print-data-log", "--max-bytes=4000")),
    DumpCase("text", "text", (LOG,), ("--print-data-log",)),
    DumpCase("batches", "batches", (LOG,), ("--print-data-log",)),
    DumpCase("batches-shallow", "batches", (LOG,)),
    DumpCase("batches-skip-metadata", "batches", (LOG,), ("--print-data-log", "--skip-record-metadata")),
    DumpCase(
        "numbers",
        "numbers",
        (LOG,),
        (f"--key-decoder-class={CLASS}IntegerDecoder", f"--value-decoder-class={CLASS}LongDecoder"),
    ),
    DumpCase("numbers-string", "numbers", (LOG,), (f"--value-decoder-class={CLASS}StringDecoder",)),
    DumpCase("v0-none", (FORMATS, "v0-none-0"), ("00000000000000000743.log",), ("--print-data-log",)),
    DumpCase("v0-gzip", (FORMATS, "v0-gzip-0"), ("00000000000000000772.log",), ("--print-data-log",)),
    DumpCase("v1-none", (FORMATS, "v1-none-0"), ("00000000000000000849.log",), ("--print-data-log",)),
    DumpCase(
        "v1-snappy", (FORMATS, "v1-snappy-0"), ("00000000000000000478.log",), ("--deep-iteration", "--max-bytes=3000")
    ),
    DumpCase("v1-lz4", (FORMATS, "v1-lz4-0"), ("00000000000000000478.log",), ("--print-data-log", "--max-bytes=3000")),
    DumpCase("v1-shallow", (FORMATS, "v1-gzip-0"), ("00000000000000000613.log",)),
    DumpCase(
        "cut-tail",
        COMPACTED,
        ("00000000000000002323.log",),
        ("--deep-iteration",),
        _cut("00000000000000002323.log", 2400),
    ),
    DumpCase("cut-header", COMPACTED, ("00000000000000002323.log",), (), _cut("00000000000000002323.log", 10)),
    DumpCase("bad-crc", "batches", (LOG,), ("--print-data-log",), _overwrite(LOG, 68, b"z")),
    DumpCase(
        "bad-crc-compressed", "batches", (LOG,), ("--deep-iteration", "--max-bytes=400"), _overwrite(LOG, 130, b"\x01")
    ),
    DumpCase("bad-size", "batches", (LOG,), ("--deep-iteration",), _overwrite(LOG, 204 + 8, b"\0\0\0\x0d")),
    DumpCase(
        "zero-tail",
        COMPACTED,
        ("00000000000000002323.log",),
        (),
        _overwrite("00000000000000002323.log", 2431, bytes(100)),
    ),
    DumpCase("repeated", "batches", (LOG,), ("--deep-iteration",), _again(LOG, 2)),
    DumpCase("indexes", STATE, (INDEX, TIME_INDEX)),
    DumpCase("indexes-sanity", STATE, (INDEX, TIME_INDEX), ("--index-sanity-check",)),
    DumpCase("indexes-verify", STATE, (INDEX, TIME_INDEX), ("--verify-index-only",)),
    DumpCase("index-empty", COMPACTED, ("00000000000000001960.index", INDEX, TIME_INDEX), ("--index-sanity-check",)),
    DumpCase(
        "index-empty-dump", COMPACTED, ("00000000000000001960.index", "00000000000000001960.timeindex", TIME_INDEX)
    ),
    DumpCase("index-wrong-offsets", STATE, (INDEX, TIME_INDEX), (), _overwrite(INDEX, 8, WRONG_ENTRIES)),
    DumpCase("index-wrong-verify", STATE, (INDEX,), ("--verify-index-only",), _overwrite(INDEX, 8, WRONG_ENTRIES)),
    DumpCase("index-repeated", STATE, (INDEX,), (), _overwrite(INDEX, 8, WRONG_ENTRIES[:8] * 2)),
    DumpCase("index-zeros", STATE, (INDEX, TIME_INDEX), (), _zeros_behind),
    DumpCase("index-into-batch", STATE, (INDEX,), (), _overwrite(INDEX, 12, b"\0\0\x20\x44")),
    DumpCase("index-past-end", STATE, (INDEX,), (), _overwrite(INDEX, 12, b"\x7f\0\0\0")),
    DumpCase("index-small-messages", STATE, (INDEX,), ("--max-message-size=120",)),
    DumpCase("index-odd-size", STATE, (INDEX,), ("--index-sanity-check",), _cut(INDEX, 20)),
    DumpCase("timeindex-wrong-timestamp", STATE, (TIME_INDEX,), (), _overwrite(TIME_INDEX, 14, b"\x07\x08")),
    DumpCase("timeindex-out-of-order", STATE, (TIME_INDEX,), (), _overwrite(TIME_INDEX, 24, bytes(6))),
    DumpCase("timeindex-wrong-offset", STATE, (TIME_INDEX,), (), _overwrite(TIME_INDEX, 20, b"\0\0\0\x3f")),
    DumpCase("timeindex-offset-past-end", STATE, (TIME_INDEX,), (), _overwrite(TIME_INDEX, 92, b"\0\1\0\0")),
    DumpCase("timeindex-batches", COMPACTED, ("00000000000000002149.timeindex", "00000000000000002360.timeindex")),
    DumpCase("transactions", TXN, ("00000000000000000000.txnindex",)),
    DumpCase("snapshots", (FLIGHTS, "flights-0"), (SNAPSHOT, "00000000000000006066.snapshot")),
    DumpCase("snapshot-no-batches", (FLIGHTS, "flights-0"), (SNAPSHOT,), (), _snapshot_without_batches),
    DumpCase("snapshot-corrupt", (FLIGHTS, "flights-0"), (SNAPSHOT,), (), _overwrite(SNAPSHOT, 30, b"\xff")),
    DumpCase("snapshot-version", (FLIGHTS, "flights-0"), (SNAPSHOT,), (), _overwrite(SNAPSHOT, 0, b"\0\7")),
    DumpCase(
        "metadata-snapshot", "bootstrap", METADATA_SNAPSHOTS, ("--cluster-metadata-decoder",), _metadata_snapshots
    ),
    DumpCase("unknown-files", STATE, ("leader-epoch-checkpoint.x", "partition.metadata", f"{FIRST}.index.deleted"), ()),
    DumpCase("missing-log", STATE, (INDEX,), (), _remove_log),
    DumpCase("no-decoder-fits", STATE, (LOG,), ("--offsets-decoder", "--max-bytes=1000")),
    DumpCase("no-key", (FLIGHTS, "__cluster_metadata-0"), (LOG,), ("--offsets-decoder", "--max-bytes=2000")),
    DumpCase("metadata-of-others", STATE, (LOG,), ("--cluster-metadata-decoder", "--max-bytes=1000")),
    DumpCase("remote-of-others", STATE, (LOG,), ("--remote-log-metadata-decoder", "--max-bytes=1000")),
]
