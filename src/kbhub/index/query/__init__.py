"""Parse user text into terms, FTS5 expressions and filters, and cut excerpts. Accepts any string."""

from kbhub.index.query.excerpts import excerpt, spans
from kbhub.index.query.filters import Filter, FilterValue, selected_bases
from kbhub.index.query.parser import (
    MAX_CHARACTERS,
    MAX_TERMS,
    ParsedQuery,
    Term,
    beginning,
    parse_query,
    parsed,
    terms_of,
)
from kbhub.index.query.tokens import (
    HAN_KANA,
    RUN,
    STOP_WORDS,
    TOKENIZER,
    cased_parts,
    fold,
    normalise,
    paired,
    searchable,
    stems,
    tokens,
)

__all__ = [
    "HAN_KANA",
    "MAX_CHARACTERS",
    "MAX_TERMS",
    "RUN",
    "STOP_WORDS",
    "TOKENIZER",
    "Filter",
    "FilterValue",
    "ParsedQuery",
    "Term",
    "beginning",
    "cased_parts",
    "excerpt",
    "fold",
    "normalise",
    "paired",
    "parse_query",
    "parsed",
    "searchable",
    "selected_bases",
    "spans",
    "stems",
    "terms_of",
    "tokens",
]
