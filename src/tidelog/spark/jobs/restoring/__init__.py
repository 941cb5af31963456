"""The insides of the restore job: what a table says of each partition, and a log written from its rows."""
