"""Statistics over recent windows of time, as in Kafka's own metrics, which are not Yammer's."""
