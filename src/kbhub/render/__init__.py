"""Render results as text: for a model (`model` and `*_answers`) or for a terminal."""
