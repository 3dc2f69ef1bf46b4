"""Claims about the rewrite, the solver that decides them, and the reports."""
