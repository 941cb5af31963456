"""The cluster metadata of a broker that keeps it in ZooKeeper, alone or with other brokers of tidelog."""
