"""The pictures of the pages, drawn as SVG from the rows of the tables next to them."""
