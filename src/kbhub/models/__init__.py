"""Texts → vectors: the packaged static model, and those of model2vec.

Comes in: texts and settings. Goes out: `Embedder`, vectors.
Must not know: where a text comes from.
"""
