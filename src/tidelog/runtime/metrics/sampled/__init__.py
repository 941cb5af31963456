"""What was recorded of late, in windows of time: the statistics of Kafka's own metrics, which are not Yammer's."""
