"""Runs programs on plain ints: frames, memory in regions, calls; the meaning is `model.semantics`' alone."""
