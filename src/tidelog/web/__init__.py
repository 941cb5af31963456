"""The inspector: pages about log directories for people, which are also JSON for programs. It only reads."""
