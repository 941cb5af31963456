"""A broker in a test's own process, and what a test may do to it."""

from tidelog.testing.broker.in_process import Broker

__all__ = ["Broker"]
