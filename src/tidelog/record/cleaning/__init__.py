"""The cleaning of batches: keys go into the offset map, then batches lose obsolete records."""

from tidelog.kernel.batch_retention import BatchRetention, CleaningRules, Retention
from tidelog.record.cleaning.clean_batches import CleanedBatches, CleanStats, clean_batches
from tidelog.record.cleaning.map_keys import hash_keys, put_keys

__all__ = [
    "BatchRetention",
    "CleanStats",
    "CleanedBatches",
    "CleaningRules",
    "Retention",
    "clean_batches",
    "hash_keys",
    "put_keys",
]
