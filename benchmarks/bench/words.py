"""Words of the notes that benchmarks make up, and of questions about them."""

WORDS = (
    "deploy", "release", "rollback", "cache", "token", "session", "index", "query", "schema", "lock", "backup",
    "queue", "batch", "order", "refund", "price",
)  # fmt: skip

QUESTIONS = (
    "how does {} work",
    "what is {}",
    "why do we need {}",
    "when should I use {}",
    "how do I configure {}",
    "what happens with {} when it fails",
    "where is {} described",
    "what are the drawbacks of {}",
    "is there an alternative to {}",
    "what changed about {}",
)
"""How people ask about a heading."""
