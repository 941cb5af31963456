"""The reports behind the pages: surveys of many logs in the background, and rows that several pages show."""
