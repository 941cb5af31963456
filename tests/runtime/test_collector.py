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


def test_the_objects_of_the_block_are_old_after_it() -> None:
    with no_collections():
        made = [[number] for number in range(5000)]
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young & {id(one) for one in made}


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        with no_collections():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
