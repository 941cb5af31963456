"""The configs of topics, brokers, groups and client metrics, as clients read and change them."""
