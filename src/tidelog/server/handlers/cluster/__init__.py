"""The APIs of the broker and the cluster."""
