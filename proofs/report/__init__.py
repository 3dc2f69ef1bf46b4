"""Reports: what verdicts look like."""
