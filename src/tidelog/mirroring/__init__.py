"""A copy of a Kafka cluster's topics in a log directory: byte for byte, offset for offset.

The mirror fetches like a consumer, so it needs only READ and DESCRIBE. It appends like a follower, so batches, offsets
and leader epochs stay as they are.

=============  =====================================================================================================
part           task
=============  =====================================================================================================
``planning``   the options of a run, and the comparison of source and copy before anything is written
``source``     the source cluster: its topics, offsets, settings, ACLs and groups; sessions of fetches with its brokers
``target``     the copy: a log directory that this process owns, with its metadata log and its logs
``run``        one run: the copying of partitions, rounds over the metadata, progress, limits, the end
=============  =====================================================================================================

The copy is a directory of its own cluster. It has the source's topic ids, but a new cluster id, because the cluster id
keeps Kafka's nodes apart: a controller refuses a broker with another cluster id (INCONSISTENT_CLUSTER_ID), and
a voter refuses another cluster's fetches. A copy with the source's id and one wrong address in its properties file
could register with the source's controllers, and be taken for a broker with its data.

These are the rules of the copy, each with its reason:

====================================  ================================================================================
rule                                  reason
====================================  ================================================================================
metadata first, then logs, then       each start of the mirror, of ``tidelog serve`` or of Kafka finds the metadata of
records                               each log; a log without metadata is set aside, not served
a leader epoch is in the metadata     a broker that starts on the copy begins an epoch above all epochs in the logs
before its first record is appended
producer ids are reserved before      a broker that starts on the copy hands out ids that no copied record has
their first record is appended
committed offsets are bounded first,  a group never has an offset above its data
data second; data is copied first
a log is truncated only to an epoch's an unclean election at the source is followed; a source that lost its data does
end that the source proves            not empty the copy
====================================  ================================================================================

Source: KIP-101, KIP-320, KIP-392 (a consumer's Fetch has ``LastFetchedEpoch``), Kafka's ``AbstractFetcherThread``,
``ClusterControlManager.registerBroker``.
"""
