"""docs/configuration.md agrees with the tables, in our own words."""

from __future__ import annotations

import pytest

from project.tree import ROOT, load
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_AREAS, BROKER_KEYS, ZOOKEEPER_BROKER_KEYS
from tidelog.config.key import Effect
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS

COMPOSED_NAMES = {"internal.segment.bytes", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"}
"""Topic keys whose values are read by a name that the code composes."""

_COMPOSED_PREFIX = "zookeeper.ssl."
"""Keys that are read as the ``ssl.`` keys of listeners, with a prefix."""

PAGE = (ROOT / "docs" / "configuration.md").read_text()


def test_the_page_is_what_the_tables_say() -> None:
    assert load("scripts/configuration_page.py").page() == PAGE, "run `make map`"


@pytest.mark.parametrize("key", ["file.delete.delay.ms", "log.dirs"])
def test_a_key_has_its_row(key: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}` |")]
    assert row.count("|") == 7


def test_every_key_is_in_one_area() -> None:
    assert sum(map(len, BROKER_AREAS.values())) == len(BROKER_KEYS)
    assert all(f"| `{name}` |" in PAGE for name in (*ZOOKEEPER_BROKER_KEYS, *TOPIC_KEYS))


def test_a_key_without_effect_is_only_shown() -> None:
    """Code that acts on settings cannot read a key without effect, so every test with a broker checks the table."""
    config = BrokerConfig.load(overrides={"zookeeper.connect": "localhost"})
    without_effect = [name for name, key in config.keys.items() if key.effect is Effect.NONE]
    assert without_effect
    for name in without_effect:
        config.shown(name)
        with pytest.raises(AssertionError, match="its table says that nothing comes of it"):
            config[name]


def test_a_key_with_effect_is_named_where_its_value_is_read() -> None:
    sources = [path for path in (ROOT / "src").rglob("*.py") if path.parent.name != "config"]
    texts = {path.relative_to(ROOT / "src").as_posix(): path.read_text() for path in sources}
    log_config = texts.pop("tidelog/storage/log/state/log_config.py")
    settings = log_config + (ROOT / "src/tidelog/config/synonyms.py").read_text()
    del texts["tidelog/cli/config.py"]  # it shows all keys
    code = "\n".join(texts.values())
    for name, key in TOPIC_KEYS.items():
        if key.used and name not in COMPOSED_NAMES:
            field = name.replace(".", "_")
            read_here = f"self.{field}" in log_config  # a field is derived from it here
            assert read_here or f".{field}" in code or f'"{name}"' in code, name
    defaults = {synonym.name: topic for topic, synonyms in TOPIC_SYNONYMS.items() for synonym in synonyms}
    for name, key in ZOOKEEPER_BROKER_KEYS.items():
        if name in defaults and name != "log.flush.scheduler.interval.ms":
            assert key.used == TOPIC_KEYS[defaults[name]].used, name
        elif key.used and not _is_of_groups(name) and not name.startswith(_COMPOSED_PREFIX):
            assert f'"{name}"' in code + settings, name


def _is_of_groups(name: str) -> bool:
    """Return True for a default or bound of a group setting, whose name ``GroupSettings`` composes."""
    setting = name.removeprefix("group.").replace(".min.", ".").replace(".max.", ".")
    return setting in GROUP_KEYS and GROUP_KEYS[setting].used
