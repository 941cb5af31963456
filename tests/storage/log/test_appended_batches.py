"""A renewed view of a log that its owner changes finds the transactions that a new view finds."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_maker import batch, data, marker, plain
from storage.log.test_renewed_view import HeldFileSystem, renewed
from tidelog.storage.log.view import view_producers
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import RowStream
from tidelog.storage.log.view.view_producers import ViewTransactions
from tidelog.storage.segment import segment_reader

LARGE = 6000


@dataclass
class Owner:
    """The owner of a log: ``segments`` has the batches of each segment by base offset. It writes no index."""

    directory: Path
    end: int = 0
    segments: dict[int, list[tuple[int, bytes]]] = field(default_factory=lambda: {0: []})

    def append(self, kind: str, producer_id: int) -> None:
        made = {
            "data": lambda: data(self.end, 2, producer_id=producer_id),
            "commit": lambda: marker(self.end, True, producer_id=producer_id),
            "abort": lambda: marker(self.end, False, producer_id=producer_id),
            "plain": lambda: plain(self.end, 3),
            "large": lambda: batch(self.end, [bytes(LARGE)]),
        }[kind]()
        self.segments[max(self.segments)].append((self.end, made))
        self.end += {"data": 2, "plain": 3}.get(kind, 1)

    def roll(self) -> None:
        self.segments.setdefault(self.end, [])

    def truncate(self, batches: int) -> None:
        for _ in range(batches):
            if not self.segments[max(self.segments)] and len(self.segments) > 1:
                del self.segments[max(self.segments)]
            if self.segments[max(self.segments)]:
                self.end = self.segments[max(self.segments)].pop()[0]

    def write(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        paths = {self.directory / f"{base:020d}.log": batches for base, batches in self.segments.items()}
        for file in set(self.directory.iterdir()) - set(paths):
            file.unlink()
        for path, batches in paths.items():
            path.write_bytes(b"".join(content for _, content in batches))


appends = st.tuples(
    st.just("append"), st.sampled_from(["data", "commit", "abort", "plain", "large"]), st.sampled_from([7, 8])
)
steps = st.one_of(*[appends] * 4, st.just(("roll",)), st.tuples(st.just("truncate"), st.integers(1, 4)))


@settings(deadline=None)
@given(stories=st.lists(st.lists(steps, max_size=12), min_size=2, max_size=5), behind=st.integers(0, 4))
def test_a_renewed_view_finds_what_a_new_view_finds(
    tmp_path_factory: pytest.TempPathFactory, stories: list[list[tuple[object, ...]]], behind: int
) -> None:
    owner = Owner(tmp_path_factory.mktemp("log") / "t-0")
    owner.write()
    view = LogView(HeldFileSystem(), owner.directory)
    for story in stories:
        for name, *arguments in story:
            getattr(owner, str(name))(*arguments)
        owner.write()
        view, fresh = renewed(view), LogView(HeldFileSystem(), owner.directory)
        watermark = max(fresh.log_start, fresh.log_end - behind)
        found, expected = view.transactions(watermark), fresh.transactions(watermark)
        assert view.log_end == fresh.log_end == owner.end
        assert found.scan.open == expected.scan.open
        assert ranges(found) == ranges(expected)
        assert found.last_stable_offset(watermark) == expected.last_stable_offset(watermark)
    shutil.rmtree(owner.directory)


def ranges(transactions: ViewTransactions) -> list[tuple[int, ...]]:
    aborted = transactions.aborted
    return list(
        zip(
            *(column.tolist() for column in (aborted.producer_id, aborted.first_offset, aborted.last_offset)),
            strict=True,
        )
    )


def test_a_follower_reads_headers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(tmp_path / "t-0")
    for kind in ("data", "large", "plain"):
        owner.append(kind, 7)
    owner.write()
    view = LogView(HeldFileSystem(), owner.directory)
    view.transactions(owner.end)
    owner.roll()
    for kind in ("large", "abort", "data"):
        owner.append(kind, 7)
    owner.write()
    later = renewed(view)
    assert later.log_end == owner.end

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("batches are read")

    monkeypatch.setattr(view_producers, "RowStream", refuse)
    found = later.transactions(owner.end)
    assert found.scan.open == {7: owner.end - 2}
    assert len(found.aborted) == 1
    watermark = owner.end
    for _ in range(2):  # the high watermark stays
        owner.append("data", 8)
        owner.write()
        later = renewed(later)
        assert later.transactions(watermark).scan.open == {7: watermark - 2, 8: watermark}


@pytest.mark.parametrize("fault", ["a batch larger than a read", "a batch below the one before"])
def test_batches_that_headers_cannot_tell_are_read(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner(tmp_path / "t-0")
    owner.append("plain", 7)
    owner.write()
    view = LogView(HeldFileSystem(), owner.directory)
    assert view.transactions(owner.end).scan.open == {}
    owner.append("large", 7)
    if fault == "a batch larger than a read":
        monkeypatch.setattr(segment_reader, "CHUNK_BYTES", LARGE // 2)
    else:
        at, content = owner.end, data(1, producer_id=8)
        owner.segments[0].append((at, content))
    owner.append("data", 7)
    owner.write()
    assert renewed(view).transactions(owner.end).scan.open == {7: owner.end - 2}


def test_other_batches_in_the_place_of_truncated_ones_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(tmp_path / "t-0")
    owner.append("plain", 7)
    owner.append("data", 7)
    owner.write()
    view = LogView(HeldFileSystem(), owner.directory)
    assert view.transactions(owner.end).scan.open == {7: 3}
    owner.truncate(1)
    owner.append("data", 8)  # as many bytes and records as before
    owner.write()
    streams: list[RowStream] = []

    class Noted(RowStream):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type] # passed through
            streams.append(self)

    monkeypatch.setattr(view_producers, "RowStream", Noted)
    assert renewed(view).transactions(owner.end).scan.open == {8: 3}
    assert len(streams) == 1
