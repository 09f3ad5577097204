"""Render results as text: for a model (`report`) or for a terminal."""
