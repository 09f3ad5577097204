"""Documents as MCP resources.

addresses    base and path ↔ `kbhub://…`; pure
documents    pages of documents, the text of one, completions
changes      which documents are new, changed or gone since the last look
serving      the protocol's requests, answered with these
"""
