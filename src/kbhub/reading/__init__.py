"""References → documents as they are on disk now, and what is near them.

Comes in: refs, names, patterns. Goes out: `ReadResult`, listings, status, the graph of links.
Must not know: how hits are ranked.
"""
