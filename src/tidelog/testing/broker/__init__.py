"""A broker in a test's own process, and its controls for tests."""

from tidelog.testing.broker.in_process import Broker

__all__ = ["Broker"]
