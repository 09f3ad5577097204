"""Documents as MCP resources.

addresses    base and path ↔ `kbhub://…`; pure
documents    pages of documents, the text of one, completions; of a hub
changes      which documents are new, changed or gone since the last look; of a hub
serving      the requests of the protocol, answered with these
"""
