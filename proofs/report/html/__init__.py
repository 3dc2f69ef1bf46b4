"""Reports as one HTML file that needs nothing else: no network, no fonts, no scripts but its own."""
