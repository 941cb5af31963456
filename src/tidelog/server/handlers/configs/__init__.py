"""The APIs of configs and client quotas: describe and alter."""
