"""Results → text: for a model (`model`), for a terminal (`terminal`)."""
