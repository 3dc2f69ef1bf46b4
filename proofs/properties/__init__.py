"""One module for each claim of the design."""
