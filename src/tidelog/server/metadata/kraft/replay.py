"""From the batches of the metadata log to the image, at a start.

Records between a BeginTransaction and its EndTransaction count only together; an AbortTransaction takes them back
(KIP-868). A transaction that nobody ended is open when all was read: the next leader aborts it.
A record of a later release is passed over, and so is one that contradicts the image after that: the image keeps both
for readers, and nobody serves it (``refusals``). Control records say who votes. Called by: ``EmbeddedMetadata``, in a
background thread, before anybody else has the image.
Source: Kafka's ``QuorumController``, ``MetadataBatchLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tidelog.model import CorruptRecordError, TidelogError, UnsupportedFormatError
from tidelog.record.control import ControlType
from tidelog.server.metadata.image import MetadataImage, PassedOver
from tidelog.server.metadata.kraft.batches import MetadataBatch
from tidelog.server.metadata.kraft.voters import Voters, voters_of
from tidelog.server.metadata.metadata_record import MetadataRecord


def first_image(records: Iterable[MetadataRecord], *, path: Path) -> MetadataImage:
    """Return the image of the records that a new cluster begins with. ``path``: of the log, for errors.

    Raise CorruptRecordError for a record that cannot be.
    """
    image = MetadataImage()
    replay = Replay(image, Voters(kraft_version=0, voters=()), path=path)
    replay.take_first(records)
    return image


class Replay:
    def __init__(self, image: MetadataImage, voters: Voters, *, path: Path) -> None:
        """``voters``: as the properties have them, where the log does not. ``path``: of the log, for errors."""
        self.voters = voters
        self.is_empty = True
        """No record yet: the cluster is new."""
        self.voters_in_log = False
        """Not only in the snapshot that formatting left."""
        self._image = image
        self._path = path
        self._transaction: list[MetadataRecord] | None = None
        self._offset = 0

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def take(self, batch: MetadataBatch) -> None:
        """Take the next batch. Raise CorruptRecordError for a record that the image cannot take.

        The log may be anybody's: whatever else a record brings about is an error of the log, too.
        """
        self._offset = batch.base_offset
        self._checked(lambda: self._take_batch(batch))

    def take_first(self, records: Iterable[MetadataRecord]) -> None:
        """Take the records that a new cluster begins with, which have no offset yet. Raise as ``take``."""
        self._checked(lambda: self._take_all(records))

    def _checked(self, take: Callable[[], None]) -> None:
        offset = self._offset
        try:
            take()
        except TidelogError as error:
            raise type(error)(error.message, path=self._path, offset=offset) from None
        except Exception as error:
            message = f"a batch of the cluster metadata has a record that cannot be: {error!r}"
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
            self._image.apply(record)
        except UnsupportedFormatError as error:
            self._image.passed_over.append(PassedOver(self._offset, error.message, record))
        except CorruptRecordError as error:
            if not self._image.passed_over:
                raise
            self._image.passed_over.append(PassedOver(self._offset, error.message, record))
