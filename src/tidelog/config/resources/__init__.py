"""The settings of what is neither a broker nor a topic: groups, subscriptions to clients' metrics, quotas."""
