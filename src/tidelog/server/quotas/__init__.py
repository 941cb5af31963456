"""Quotas of clients: what they may produce, fetch, ask for and change, and how long they wait who have had more."""
