"""Compiled code: machine instructions, and what a function leaves in the upper half of its result register."""
