"""Parse user text into terms, FTS5 expressions and filters, and cut excerpts. Accepts any string."""
