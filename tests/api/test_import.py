"""The package's names: complete, and imported lazily without large modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidelog
from tidelog import model


def test_every_name_is_there() -> None:
    for name in tidelog.__all__:
        assert getattr(tidelog, name) is not None
    assert set(model.__all__) <= set(tidelog.__all__)
    assert set(tidelog.__all__) <= set(dir(tidelog))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="open_lock"):
        _ = tidelog.open_lock


def test_importing_loads_nothing_large() -> None:
    script = (
        "import sys, tidelog\n"
        "tidelog.TopicPartition, tidelog.CorruptRecordError\n"
        "print(sorted({'numpy', 'pyarrow', 'click', 'rich', 'tidelog.kernel', 'tidelog.storage'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "[]\n"
