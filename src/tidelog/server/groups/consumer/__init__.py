"""Consumer groups (KIP-848): the coordinator assigns, members reconcile with one heartbeat after the other."""
