"""A folder → its files → documents → chunks.

Comes in: a base's folder and its filters. Goes out: `FileEntry`, `Document`, `Chunk`, references.
Must not know: that there is an index.
"""
