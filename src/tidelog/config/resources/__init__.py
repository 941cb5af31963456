"""Settings of resources other than brokers and topics: groups, client metrics subscriptions, quotas."""
