"""The cleaner's settings: Kafka's keys, and each thread's share of the buffers."""

from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.storage.cleaner.cleaner_settings import MOST_THREADS, CleanerSettings

KEY = bytes(16)


def test_defaults_are_kafkas() -> None:
    settings = CleanerSettings()
    assert (settings.threads, settings.backoff_ms, settings.dedupe_load_factor) == (1, 15_000, 0.9)
    assert (settings.dedupe_buffer_bytes, settings.io_buffer_bytes) == (128 * 1024**2, 512 * 1024)
    assert settings == CleanerSettings.of(BrokerConfig())


def test_a_brokers_properties() -> None:
    config = BrokerConfig.load(
        None,
        {
            "log.cleaner.threads": "4",
            "log.cleaner.dedupe.buffer.size": "8000000",
            "log.cleaner.io.buffer.size": "800",
            "log.cleaner.io.buffer.load.factor": "0.5",
            "log.cleaner.io.max.bytes.per.second": "1000.5",
            "log.cleaner.backoff.ms": "7",
        },
    )
    assert CleanerSettings.of(config) == CleanerSettings(
        threads=4,
        dedupe_buffer_bytes=8_000_000,
        io_buffer_bytes=800,
        dedupe_load_factor=0.5,
        io_max_bytes_per_second=1000.5,
        backoff_ms=7,
    )


def test_there_are_threads_left_for_the_rest_of_the_broker() -> None:
    texts = {"log.cleaner.threads": "20000", "log.cleaner.dedupe.buffer.size": str(2**50)}
    assert CleanerSettings.of(BrokerConfig.load(None, texts)).threads == MOST_THREADS


def test_buffers_are_divided_by_the_threads() -> None:
    settings = CleanerSettings(threads=4, dedupe_buffer_bytes=8_000_000, io_buffer_bytes=800)
    assert (settings.map_bytes, settings.thread_io_bytes) == (2_000_000, 100)
    assert settings.new_map(KEY).slot_count == 2_000_000 // 24


def test_a_thread_gets_less_than_2_gib() -> None:
    assert CleanerSettings(dedupe_buffer_bytes=2**40).map_bytes == 2**31 - 1


def test_a_map_is_never_full_to_the_last_slot() -> None:
    made = CleanerSettings(dedupe_buffer_bytes=24_000, dedupe_load_factor=3.0).new_map(KEY)
    assert made.max_size < made.slot_count
