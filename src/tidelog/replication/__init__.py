"""Replication's cores: state machines without I/O. Events go in, commands come out, and times are arguments."""
