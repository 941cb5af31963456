"""The pages of the cleaner, retention, topics and log directories over damaged files: every one is a page."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cluster_maker import write_metadata
from random_partition import random_partition
from tidelog.web.html import page_html
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from web.harness import check_picture, read_page
from web.made_directories import setting

LOGS = ("t-0", "t-1", "u-0")
PAGES = ("/cleaner", "/retention", "/topics/t", "/topics/u", "/logs/0", *(f"/logs/0/{log}/cleaner" for log in LOGS))
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def damaged_directory(path: Path, chance: random.Random) -> None:
    for log in LOGS:
        (path / log).mkdir()
        random_partition(path / log, chance)
    changes = [
        setting("t", "cleanup.policy", chance.choice(["compact", "compact,delete"])),
        setting("t", "min.compaction.lag.ms", str(chance.choice([0, 10**9, 2**63 - 1]))),
        setting("t", "min.cleanable.dirty.ratio", chance.choice(["0", "0.5", "1"])),
        setting("u", "retention.ms", str(chance.choice([-1, 0, 2**63 - 1]))),
    ]
    write_metadata(path, {"t": {}, "u": {}}, changes=changes)
    for name in CHECKPOINTS:
        offsets = chance.choice([0, 5, 30, 10**12, 2**63 - 1]), chance.randrange(60)
        (path / name).write_text(f"0\n2\nt 0 {offsets[0]}\nt 1 {offsets[1]}\n")
    files = [file for file in path.rglob("*") if file.is_file()]
    for file in chance.sample(files, 4):
        content = bytearray(file.read_bytes()) + chance.randbytes(9)
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        file.write_bytes(content if chance.random() < 0.5 else content[:at])
    if chance.random() < 0.5:
        missing = chance.choice(files)
        missing.unlink()
        missing.mkdir()


@pytest.mark.parametrize("seed", [10, 11, 30, 32])
def test_damage_does_not_fail_a_page(tmp_path: Path, seed: int) -> None:
    """Logs without segments, and a ``.log`` that is a directory, once failed here."""
    damaged_directory(tmp_path, random.Random(seed))
    for url in PAGES:
        page = read_page(tmp_path, url)
        json.dumps(page_json(page))
        page_html(page, url, Query())
        for section in page.sections:
            if section.picture is not None:
                check_picture(section)
