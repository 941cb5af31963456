"""The pages. Each module has the functions of one subject: they read log directories and return a ``Page``."""
