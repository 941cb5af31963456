"""Garbage collection is off in a block, and as before after it."""

from __future__ import annotations

import gc

import pytest

from tidelog.runtime.collector import no_collections


def test_it_is_off_in_the_block() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise OSError("x")

    with pytest.raises(OSError, match="x"), no_collections():
        fail()
    assert gc.isenabled()


def test_it_stays_off_if_it_was_off() -> None:
    with no_collections():
        with no_collections():
            pass
        is_on = gc.isenabled()
    assert not is_on
