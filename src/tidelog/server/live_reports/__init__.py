"""Reports about a running node as rows, for the inspector's pages, and the process that serves those pages."""
