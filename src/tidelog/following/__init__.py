"""The input and output of followers: fetches from one leader, and work on the logs. Brokers and the mirror use it."""
