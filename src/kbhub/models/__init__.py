"""Texts → vectors, and prompts → text: the packaged static model, MiniLM, models on a server.

Comes in: texts and settings. Goes out: `Embedder`, vectors, answers of a language model.
Must not know: where a text comes from.
"""
