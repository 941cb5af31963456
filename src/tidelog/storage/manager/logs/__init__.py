"""The logs of a manager: which there are, how they are made and opened, with which settings, how they go."""
