"""Documents as MCP resources.

addresses    base and path ↔ `kbhub://…`, and which documents are new, changed or gone since the last look
documents    pages of documents, the text of one, subscriptions, completions
skills       the requests of the skills extension
"""
