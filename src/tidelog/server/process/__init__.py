"""A node as a process, and the process of its pages."""

from tidelog.server.process.node_process import serve

__all__ = ["serve"]
