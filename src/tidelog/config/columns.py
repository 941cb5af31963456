"""Short names for the values in the tables of keys."""

from __future__ import annotations

import sys

from tidelog.config.key import Effect, Importance, UpdateMode
from tidelog.config.valid import Items, one_of
from tidelog.config.value_text import KeyType

BOOLEAN = KeyType.BOOLEAN
STRING = KeyType.STRING
INT = KeyType.INT
SHORT = KeyType.SHORT
LONG = KeyType.LONG
DOUBLE = KeyType.DOUBLE
LIST = KeyType.LIST
CLASS = KeyType.CLASS
PASSWORD = KeyType.PASSWORD

HIGH = Importance.HIGH
MEDIUM = Importance.MEDIUM
LOW = Importance.LOW

READ_ONLY = UpdateMode.READ_ONLY
PER_BROKER = UpdateMode.PER_BROKER
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

USED = Effect.USED
CHECKED = Effect.CHECKED

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = sys.float_info.max

COMPRESSION_TYPES = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = Items(("compact", "delete"))
