"""A query and open indexes → hits.

Comes in: a query. Goes out: `SearchResult`: ranked hits, their scores, the verdict.
Must not know: how files came into an index, nor who asks.
"""
