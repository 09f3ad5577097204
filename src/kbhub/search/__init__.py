"""Search: from a query and open indexes to a `SearchResult` with ranked hits, their scores and the verdict.

It must not know how files came into an index, nor who asks.
"""
