"""Small corpora and indexes for tests: real SQLite files, real vectors."""

import hashlib
import random
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from kbhub.index.engine import Index, Key, NewDocument, Selection
from kbhub.index.matches import CHUNK_BITS, Ranking, keys_of
from kbhub.index.query.parser import parse_query
from kbhub.index.signatures import likely
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.models.embedding import packaged_embedder
from kbhub.models.static_model import quantise
from kbhub.search.retrieval import keyword_ranking, places_of, semantic_ranking
from kbhub.types import Chunk

EMBEDDER = packaged_embedder()

_TOPICS = [
    "deploy release rollback canary pipeline staging production artifact version tag",
    "database index query migration schema transaction lock replica backup restore",
    "login token session password cookie scope permission role user account",
    "cache memory latency throughput profile benchmark allocation thread queue batch",
    "invoice payment refund order basket customer discount shipping stock price",
]
_COMMON = [
    *("the", "a", "of", "to", "in", "and", "is", "for", "with", "on", "when", "we", "it", "this", "that", "from"),
    *("by", "as", "be", "are"),
]


def ranking_of(rows: list[tuple[Key, int, float]]) -> Ranking:
    """Make a ranking of (chunk, document, value), best first."""
    chunks = np.array([(base << CHUNK_BITS) + chunk for (base, chunk), _, _ in rows], np.int64)
    documents = np.array([document for _, document, _ in rows], np.int64)
    return Ranking(chunks, documents, np.array([value for *_, value in rows], np.float64))


def sentences(documents: int, seed: int = 0) -> dict[str, str]:
    """Make documents of about 60 words, each mostly of one topic, the same on every run."""
    choose = random.Random(seed)
    made = {}
    for number in range(documents):
        topic = _TOPICS[number % len(_TOPICS)].split()
        other = choose.choice(_TOPICS).split()
        words = [
            choose.choices(
                (choose.choice(topic), choose.choice(_COMMON), choose.choice(other), f"w{choose.randrange(400)}"),
                (4, 5, 1, 2),
            )[0]
            for _ in range(choose.randrange(30, 90))
        ]
        made[f"notes/{number:03}.md"] = " ".join(words)
    return made


def nearest(index: Index, vector, limit: int, selection: Selection | None = None) -> list[tuple[int, float]]:
    """Rank the chunks of an open index by their cosine to a unit vector, as a search does: chunk, cosine."""
    (near,) = likely([index.signed(selection, len(vector))], vector, limit)
    found = zip(*index.similarities(quantise(vector), index.columns().ids[near]), strict=True)
    return sorted([(int(chunk), float(cosine)) for chunk, cosine in found], key=lambda one: -one[1])[:limit]


def make_index(path: Path, documents: dict[str, str], base: str = "project", *, vectors: bool = True) -> Index:
    """Write documents of one chunk each into an index file, and open it."""
    texts = list(documents.values())
    blobs = [blob.tobytes() for blob in quantise(EMBEDDER.embed(texts))] if vectors and texts else []
    path.parent.mkdir(parents=True, exist_ok=True)
    with IndexWriter(path) as writer, writer.transaction():
        for number, (name, text) in enumerate(documents.items()):
            key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
            document = NewDocument(
                path=name, docid=hashlib.sha256(f"{base}{name}".encode()).hexdigest()[:16], size=len(text), mtime_ns=1,
                hash=b"", title=name, tags=(), aliases=(), front_matter={}, dated=None, problem=None,
                chunks=(Chunk((), 1, 1, text),), keys=(key,),
            )  # fmt: skip
            writer.put(document, {key: blobs[number]} if blobs else {})
        writer.set_meta({"embedder": EMBEDDER.fingerprint})
    return SqliteIndex(path, base)


def rankings(indexes, query):
    """Both rankings of a query, as (path, rounded value)."""
    with ExitStack() as stack:
        for index in indexes:
            stack.enter_context(index.snapshot())
        keyword = keyword_ranking(indexes, parse_query(query).terms).ranking
        semantic = semantic_ranking(indexes, EMBEDDER.embed([query])[0]).ranking
        places = places_of(indexes, [*keys_of(keyword.chunks), *keys_of(semantic.chunks)])
        return [
            [
                (places[key][0], round(value, 9))
                for key, value in zip(keys_of(one.chunks), one.values.tolist(), strict=True)
            ]
            for one in (keyword, semantic)
        ]
