"""Random settings: each is read or refused with a ConfigError, and settings that were read round-trip."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.explanation import explain_all
from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import KeyType, format_value
from tidelog.model import ConfigError
from tidelog.storage.log.state.log_config import LogConfig

NUMBERS = st.one_of(st.integers(-3, 20), st.integers(-(2**65), 2**65), st.sampled_from([2**31 - 1, 2**63 - 1]))
ANY_TEXT = st.one_of(st.text(max_size=8), NUMBERS.map(str), st.floats().map(format_value), st.just(""))


def text_for(key: Key) -> st.SearchStrategy[str]:
    """Draw a text, mostly of the key's type."""
    match key.type:
        case KeyType.INT | KeyType.LONG | KeyType.SHORT:
            return st.one_of(NUMBERS.map(str), ANY_TEXT)
        case KeyType.BOOLEAN:
            return st.sampled_from(["true", "FALSE", "yes"])
        case KeyType.LIST:
            return st.one_of(st.sampled_from(["compact", "delete,compact", "delete, delete"]), ANY_TEXT)
        case _:
            return ANY_TEXT


def settings(table: dict[str, Key]) -> st.SearchStrategy[dict[str, str]]:
    one = st.sampled_from(sorted(table)).flatmap(lambda name: st.tuples(st.just(name), text_for(table[name])))
    return st.lists(one, max_size=6).map(dict)


LOG_KEYS = {name: key for name, key in BROKER_KEYS.items() if name.startswith(("log.", "num.", "remote.", "message."))}
BROKERS = st.one_of(settings(LOG_KEYS), settings(dict(BROKER_KEYS)))


@run_settings(max_examples=50)
@given(BROKERS, settings(TOPIC_KEYS), BROKERS)
def test_read_or_refused(texts: dict[str, str], topic_texts: dict[str, str], changes: dict[str, str]) -> None:
    try:
        broker = BrokerConfig.load(None, texts)
        topic = TopicSettings.of(topic_texts, broker)
        config = LogConfig.of(broker, topic_texts)
    except ConfigError:
        return
    assert len(list(explain_all(broker, topic))) == len(BROKER_KEYS) + len(TOPIC_KEYS)
    again = {name: format_value(broker.shown(name)) for name in texts if not BROKER_KEYS[name].is_secret}
    assert BrokerConfig.load(None, again).topic_defaults() == broker.topic_defaults()
    assert LogConfig.from_properties(topic_texts | {"segment.bytes": str(config.segment_bytes)}) is not None
    try:
        after = broker.with_changes(changes)
    except ConfigError:
        return
    assert after.with_changes(dict.fromkeys(changes)) == broker
