"""Any rows, in any tasks and batches: all of them are in the logs, each once, in the order of their tasks."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark.in_process import rows
from spark.write.sinks import Sink
from tidelog.spark.write import staging

_BYTES = st.none() | st.binary(max_size=30)
_HEADER = st.fixed_dictionaries({"key": st.text(max_size=5), "value": _BYTES})
_RECORD = st.fixed_dictionaries(
    {
        "key": _BYTES,
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.none() | st.integers(0, 2),
        "headers": st.none() | st.lists(_HEADER, min_size=1, max_size=3),
    }
)
_TASKS = st.lists(st.lists(_RECORD, max_size=8), min_size=1, max_size=3)


@settings(max_examples=25)
@given(batches=st.lists(_TASKS, min_size=1, max_size=3), batch_bytes=st.integers(1, 300), gathered=st.integers(1, 500))
def test_all_rows_arrive(batches: list[list[list[dict[str, Any]]]], batch_bytes: int, gathered: int) -> None:
    wanted: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "_GATHERED_BYTES", gathered)
        more: dict[str, Any] = {"numPartitions": 3, "kafka.batch.size": batch_bytes}
        sink = Sink(Path(name), topic=None, **more)
        for number, tasks in enumerate(batches):
            for row in chain.from_iterable(tasks):
                row["value"] = b"%d" % len(wanted)
                wanted.append(row)
            sink.write(*tasks, batch=number)
            sink.write(*tasks, batch=number)
        found = rows(name, subscribePattern=".*", includeHeaders=True)
    next_offset: Counter[tuple[str, int]] = Counter()
    last_value: dict[tuple[str, int], int] = {}
    for row in found:
        place, value = (row["topic"], row["partition"]), int(row["value"])
        assert row["offset"] == next_offset[place]
        assert value > last_value.get(place, -1)
        next_offset[place] += 1
        last_value[place] = value
        given_row = wanted[value]
        assert (row["topic"], row["key"], row["headers"]) == tuple(
            given_row[part] for part in ("topic", "key", "headers")
        )
        assert row["partition"] == given_row["partition"] or given_row["partition"] is None
    assert len(found) == len(wanted)
