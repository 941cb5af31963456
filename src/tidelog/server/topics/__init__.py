"""Topics as clients see, create and delete them."""
