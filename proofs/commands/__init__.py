"""One module for each subcommand of `python -m proofs`."""
