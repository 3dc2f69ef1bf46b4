"""What instructions mean, once, over any `Bits` and `Memory`. Nothing here asks which machine runs it."""
