"""APIs about the broker and the cluster themselves."""
