"""Topics as clients see them, make them and take them away."""
