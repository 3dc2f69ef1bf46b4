"""Instructions: syntax, encoding and text. No meaning here (that is `model.semantics`)."""
