"""Files and an index → the index in step with the files.

Comes in: bases and what is said to have changed. Goes out: written indexes, `SyncReport`, how far behind a base is.
Must not know: what is asked of an index.
"""
