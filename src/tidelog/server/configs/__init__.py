"""Settings of topics, brokers, groups and subscriptions, as clients see and change them."""
