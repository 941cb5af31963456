"""The replay of the metadata log's batches into the image at a start.

Records from a BeginTransaction to its EndTransaction count only together. An AbortTransaction drops them (KIP-868). An
unfinished transaction stays open at the end, and the next leader aborts it. A record of a later release is skipped, and
so are later records that contradict the image. The image lists both for readers, and no broker serves it
(``directory_check``). Control records define the voters.
Thread rule: a background thread, before any other code has the image.
Source: Kafka's ``QuorumController``, ``MetadataBatchLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tidelog.model import CorruptRecordError, TidelogError, UnsupportedFormatError
from tidelog.record.control import ControlType
from tidelog.server.metadata.image import MetadataChange, MetadataImage, SkippedRecord
from tidelog.server.metadata.kraft.batches import MetadataBatch
from tidelog.server.metadata.kraft.quorum import Voters, voters_of
from tidelog.server.metadata.metadata_record import MetadataRecord


def bootstrap_image(records: Iterable[MetadataRecord], *, path: Path) -> MetadataImage:
    """Return the image of a new cluster's first records. ``path`` names the log in errors.

    Raise CorruptRecordError if a record is not valid.
    """
    image = MetadataImage()
    replay = MetadataReplay(image, Voters(kraft_version=0, voters=()), path=path)
    replay.apply_bootstrap(records)
    return image


class MetadataReplay:
    def __init__(self, image: MetadataImage, voters: Voters, *, path: Path) -> None:
        """Create a replay. ``voters`` count if the log has none. ``path`` names the log in errors."""
        self.voters = voters
        self.is_empty = True
        """True if no metadata record was replayed: the cluster is new."""
        self.voters_in_log = False
        """True if the log has voters, not only the snapshot from formatting."""
        self._image = image
        self._path = path
        self._transaction: list[MetadataRecord] | None = None
        self._offset = 0
        self._change: MetadataChange | None = None
        self._applied: list[MetadataRecord] = []

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def apply(self, batch: MetadataBatch, change: MetadataChange | None = None) -> list[MetadataRecord]:
        """Apply the next batch, note the effects in ``change``, and return the applied records.

        The records of a transaction are applied with its end. Raise CorruptRecordError if the image cannot apply a
        record. Any other exception becomes CorruptRecordError too, because any program may have written the log.
        """
        self._offset = batch.base_offset
        self._change, self._applied = change, []
        self._checked(lambda: self._take_batch(batch))
        return self._applied

    def apply_bootstrap(self, records: Iterable[MetadataRecord]) -> None:
        """Apply the first records of a new cluster, which have no offset yet. Raise as ``take`` does."""
        self._checked(lambda: self._take_all(records))

    def _checked(self, take: Callable[[], None]) -> None:
        offset = self._offset
        try:
            take()
        except TidelogError as error:
            raise type(error)(error.message, path=self._path, offset=offset) from None
        except Exception as error:
            message = f"a batch of the cluster metadata has a record that is not valid: {error!r}"
            raise CorruptRecordError(message, path=self._path, offset=offset) from error

    def _take_all(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            self._take(record)

    def _take_batch(self, batch: MetadataBatch) -> None:
        self._take_all(batch.records)
        for control in batch.control_records:
            match control.type:
                case ControlType.KRAFT_VERSION:
                    self.voters = Voters(kraft_version=control.fields["kRaftVersion"], voters=self.voters.voters)
                case ControlType.KRAFT_VOTERS:
                    self.voters = Voters(kraft_version=self.voters.kraft_version, voters=voters_of(control.fields))
                    self.voters_in_log |= batch.epoch > 0

    def _take(self, record: MetadataRecord) -> None:
        match record.name:
            case "BeginTransactionRecord":
                self._transaction = []
            case "EndTransactionRecord":
                records, self._transaction = self._transaction or [], None
                for one in records:
                    self._apply(one)
            case "AbortTransactionRecord":
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        self.is_empty = False
        try:
            self._image.apply(record, self._change)
            self._applied.append(record)
        except UnsupportedFormatError as error:
            self._image.skipped_records.append(SkippedRecord(self._offset, error.message, record))
        except CorruptRecordError as error:
            if not self._image.skipped_records:
                raise
            self._image.skipped_records.append(SkippedRecord(self._offset, error.message, record))
