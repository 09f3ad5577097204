"""Model2vec models, loaded without the library, which imports a hub client, and query vectors of the packaged one."""

from __future__ import annotations

import hashlib
import json
import math
import re
import string
import unicodedata
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

WORDS, ROWS, LEVELS, STEPS = "words", "rows", "levels", "steps"
"""Names of the tensors: sorted hashes, the row of each (`ENGLISH` for a word to leave alone), two 4-bit levels
per byte, and the distance between a row's levels."""

ENGLISH = -1
"""Row of an English word: its pieces are the better vector."""

MIDDLE = 7.5

_PAIRS = (np.arange(256)[:, None] >> (0, 4) & 15).astype(np.float32) - np.float32(MIDDLE)
"""Byte → its two levels, as distances from the middle."""

STRIPPED, SHORTEST = 3, 4
"""Most letters that are taken from the end of an unknown word, and fewest that must remain: inflected forms."""

_MARKS = re.escape(string.punctuation)

WORD_OR_MARK = rf"[{_MARKS}]|[^ \t\n\r{_MARKS}]+"
"""Pattern of the words that `Lexicon.tokens` takes, and of the marks that separate them."""

_HAN_KANA = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_THAI = r"\u0e01-\u0e4e"
_LETTERS = rf"[^\W_{_HAN_KANA}{_THAI}]"
_UNITS = rf"[{_HAN_KANA}]+|[{_THAI}]+|{_LETTERS}+(?:[\u0900-\u0963]{_LETTERS}*)*"
"""Runs without spaces, and words, with the vowel signs of Devanagari. Compiled at first use, which takes some ms: most
queries are ASCII."""

LONGEST_THAI = 12

_ACCENTED = "[\u0370-\u03ff\u0600-\u06ff\u1f00-\u1fff]+"

_SPELLINGS = str.maketrans("ςىة", "σيه", "ـ")

_AFFIXES = r"\b(?:[وف]?(?:[بك]?ال|لل)|و)(?=\w{3})|(?<=\w{3})(?:ها|ان|ات|ون|ين|يه|[هي])\b"
"""Articles with conjunctions and prepositions, and ends of plurals and pronouns (Larkey, Ballesteros, Connell: "Light
Stemming for Arabic Information Retrieval", 2007)."""

_STEMS = (("\u0400", "\u052f", 6), ("\uac00", "\ud7af", 2), ("\u0370", "\u03ff", 6), ("\u0900", "\u0963", 5))
"""First and last letter of the scripts whose words have no English pieces, Cyrillic, Hangul, Greek and Devanagari, and
how many letters at the beginning of a word stand for all words that share them."""


class Lexicon:
    """The words of other languages and their vectors; token ids below `first` belong to the tokenizer."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], first: int) -> None:
        self.first = first
        self._words, self._rows = tensors[WORDS], tensors[ROWS]
        self._levels, self._steps = tensors[LEVELS], tensors[STEPS]
        self._none = np.zeros((0, 2 * self._levels.shape[1]), np.float32)

    def apart(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Split the tokens of a text into those of the tokenizer, and the vectors of the others, shape (n, dimensions).

        Vectors are in the unit of int8 rows: multiples of a half, so sums are exact.
        """
        own = tokens >= self.first
        if not np.count_nonzero(own):
            return tokens, self._none
        rows = tokens[own] - self.first
        levels = _PAIRS.take(self._levels.take(rows, 0), 0).reshape(len(rows), self._none.shape[1])
        return tokens[~own], levels * self._steps.take(rows)[:, None]

    def tokens(self, words: Iterable[str]) -> dict[str, tuple[list[int], str]]:
        """Return word, without spaces → its token ids, and the rest for the tokenizer; unknown words are left out."""
        parts_of = {word: units(word) for word in words}
        every = set(chain.from_iterable(parts_of.values()))
        runs = {unit: characters(unit) for unit in every if is_run(unit)}
        rows = self._find(chain(every.difference(runs), *runs.values()))
        # A word with digits is a name; it has no other forms.
        forms = {unit: _forms(unit) for unit in every if unit not in rows and unit.isalpha() and unit not in runs}
        rows |= self._find(chain.from_iterable(forms.values()))
        # The first halves of a compound, for each place where it may be joined, the longest first.
        compounds = {
            unit: [unit[:at] for at in range(len(unit) - SHORTEST, SHORTEST - 1, -1)]
            for unit, others in forms.items()
            if rows.keys().isdisjoint(others)
        }
        rows |= self._find(chain.from_iterable(compounds.values()))
        halves = {
            unit: [(left, [unit[len(left) :], *_forms(unit[len(left) :])]) for left in some]
            for unit, lefts in compounds.items()
            if (some := [left for left in lefts if rows.get(left, ENGLISH) != ENGLISH])
        }
        rows |= self._find(right for pairs in halves.values() for _, rights in pairs for right in rights)
        known: dict[str, list[int]] = {}
        for unit, keys in runs.items():
            if found := [rows[key] for key in (longest(unit, rows) if is_thai(unit) else keys) if key in rows]:
                known[unit] = found
        for unit in every.difference(runs):
            row = rows[unit] if unit in rows else _first(forms.get(unit, ()), rows)
            found = _two(halves.get(unit, ()), rows) if row is None else [row] if row != ENGLISH else []
            if found:
                known[unit] = found
        return {
            word: ([self.first + row for unit in parts for row in known.get(unit, ())], _rest(word, known, rows))
            for word, parts in parts_of.items()
            if not known.keys().isdisjoint(parts)
        }

    def _find(self, wanted: Iterable[str]) -> dict[str, int]:
        """Return key → row, for those that the list has."""
        if not (keys := list(dict.fromkeys(wanted))):
            return {}
        hashes = np.frombuffer(b"".join(map(word_hash, keys)), "<u8")
        at = np.searchsorted(self._words, hashes).clip(max=len(self._words) - 1)
        known = np.flatnonzero(self._words[at] == hashes)
        return {keys[number]: row for number, row in zip(known.tolist(), self._rows[at[known]].tolist(), strict=True)}


def word_hash(key: str) -> bytes:
    """Return the number by which a key is found, as 8 bytes, little-endian."""
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()


def units(word: str) -> list[str]:
    """Return the words, and runs of Han and Kana, of a text without spaces and ASCII punctuation, in a normal form."""
    if word.isascii():
        return [word.lower()] if word.isalnum() else []
    return re.findall(_UNITS, _normal(word))


def known_marks(text: str) -> str:
    """Return a text with Arabic marks as the tokenizer knows them; it would count others as unknown words."""
    return text if text.isascii() else text.replace("؟", "?").replace("،", ",").replace("؛", ";")


def _normal(word: str) -> str:
    return re.sub(_ACCENTED, _without_marks, unicodedata.normalize("NFKC", word).lower())


def _without_marks(match: re.Match[str]) -> str:
    """Return Greek without accents, or Arabic without vowel signs and affixes."""
    letters = unicodedata.normalize("NFKD", match.group()).translate(_SPELLINGS)
    return re.sub(_AFFIXES, "", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def is_run(unit: str) -> bool:
    """Return whether a unit is a run of Han or Kana, or of Thai."""
    return not unit.isascii() and re.match(f"[{_HAN_KANA}{_THAI}]", unit) is not None


def is_thai(unit: str) -> bool:
    """Return whether a unit is a run of Thai."""
    return "\u0e01" <= unit[:1] <= "\u0e4e"


def characters(run: str) -> list[str]:
    """Return what a run may have in the list: its characters and pairs of neighbours, or all that may be Thai words."""
    if is_thai(run):
        return [run[at : at + size] for at in range(len(run)) for size in range(2, LONGEST_THAI + 1)]
    return [*run, *map("".join, pairwise(run))]


def longest(run: str, words: Container[str]) -> Iterator[str]:
    """Yield the longest words at each place of a run of Thai, from left to right; what is no word is skipped."""
    at = 0
    while at < len(run):
        ends = range(min(len(run), at + LONGEST_THAI), at + 1, -1)
        end = next((end for end in ends if run[at:end] in words), at)
        if end > at:
            yield run[at:end]
        at = max(end, at + 1)


def _forms(word: str) -> list[str]:
    """Return other keys under which a word may be listed, the nearest first."""
    forms = [word[:end] for end in range(len(word) - 1, max(SHORTEST, len(word) - STRIPPED) - 1, -1)]
    return forms if word.isascii() else forms + stems(word)


def stems(word: str) -> list[str]:
    """Return the key that stands for all words with the beginning of a word; none if its script has English pieces."""
    return [f"{word[:size]}*" for first, last, size in _STEMS if first <= word[:1] <= last]


def _two(halves: Iterable[tuple[str, Iterable[str]]], rows: Mapping[str, int]) -> list[int]:
    """Return rows of the halves of a compound, given its known first halves with the forms of the second ones."""
    for left, rights in halves:
        if (second := _first(rights, rows)) is not None and second != ENGLISH:
            return [rows[left], second]
    return []


def _first(keys: Iterable[str], rows: Mapping[str, int]) -> int | None:
    return next((rows[key] for key in keys if key in rows), None)


def _rest(word: str, taken: Mapping[str, list[int]], rows: Mapping[str, int]) -> str:
    """Return the unknown part of a word; single characters of Han and Kana are looked up for themselves."""
    if word.isascii():
        return ""

    def left(match: re.Match[str]) -> str:
        unit = match.group()
        if unit not in taken:
            return unit
        if is_thai(unit):
            return " "
        return "".join(f" {letter} " for letter in unit if letter not in rows) if is_run(unit) else " "

    return re.sub(_UNITS, left, _normal(word)).strip()


CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
"""Files of a model in model2vec's layout; other layouts are left to the library."""

MATRIX, WEIGHT, MAPPING = "embeddings", "weights", "mapping"

LEXICON = frozenset((WORDS, ROWS, LEVELS, STEPS))

MOST_HEADER_BYTES = 1_000_000
"""Largest header of a safetensors file; with five tensors it takes 500."""

_TYPES = {"I8": "<i1", "U8": "<u1", "F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U64": "<u8"}
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _TYPES.items()}
"""Name in safetensors → type, for those that these tensors have; all are little-endian."""

OWN = Path(__file__).parent
"""Files below this folder are only ever replaced by an installer, never rewritten in place, so mapping them is safe."""

KNOWN_SHARE = 0.5
"""Texts with a smaller share of known tokens get no vector, as it would be noise."""

INFORMATIVE_NORM = 0.1
"""Tokens with vectors shorter than this share of the median carry no meaning (punctuation)."""

CONTINUED = "##"


@struct
class StaticModel:
    """A tokenizer and the vectors of its tokens."""

    tokenizer: Tokenizer
    embedding: NDArray[Any]
    """Shape (rows, dimensions), int8 or floats; memory-mapped for the packaged model, so that processes share it."""
    weights: NDArray[Any] | None
    """Of each token; None if all are equal."""
    token_mapping: NDArray[Any] | None
    """Token → row; None if they are the same."""
    unk_token_id: int | None
    lexicon: Lexicon | None = None


def load_model(source: str) -> StaticModel:
    """Load a model from a folder in a layout that model2vec reads, or by its id on the model hub."""
    try:
        if model := _read(Path(source)):
            return model
        # Imports the client of the model hub, which takes 0.5 s.
        from model2vec import StaticModel as LibraryModel  # noqa: PLC0415

        loaded = LibraryModel.from_pretrained(source, max_length=None, force_download=False)
        return StaticModel(
            loaded.tokenizer, loaded.embedding, loaded.weights, loaded.token_mapping, loaded.unk_token_id
        )
    except Exception as error:  # safetensors and tokenizers raise plain exceptions
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EmbedderError(f"Cannot load the embedding model {source!r}: {reason}") from error


def _read(folder: Path) -> StaticModel | None:
    """Read a model in model2vec's layout; None if the library must read it, or report what is wrong with it."""
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER)):
        return None
    if not isinstance(json.loads((folder / CONFIG).read_bytes()), dict):
        return None
    tensors = read_tensors(folder / WEIGHTS)
    if tensors is None or MATRIX not in tensors or tensors[MATRIX].ndim != 2:
        return None
    # Takes 15 ms, and a query of plain words needs none.
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    matrix, weights, mapping = tensors[MATRIX], tensors.get(WEIGHT), tensors.get(MAPPING)
    shape = (tokenizer.get_vocab_size(),)
    if not hasattr(tokenizer.model, "unk_token") or (weights is not None and weights.shape != shape):
        return None
    rows = np.arange(len(matrix)) if mapping is None else mapping
    if rows.shape != shape or rows.dtype.kind != "i" or not 0 <= rows.min() <= rows.max() < len(matrix):
        return None
    name = tokenizer.model.unk_token
    unknown = None if name is None else tokenizer.token_to_id(name)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lexicon = Lexicon(tensors, len(matrix)) if tensors.keys() >= LEXICON else None
    return StaticModel(tokenizer, matrix, weights, mapping, unknown, lexicon)


def read_tensors(path: Path) -> dict[str, NDArray[Any]] | None:
    """Return name → array of a safetensors file, memory-mapped where that is safe.

    The format is a length in 8 bytes, a JSON header of that length, and the data. None if the file is damaged or has
    others than model2vec or kbhub writes.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(MOST_HEADER_BYTES, size - 8):
            return None
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if not set(header) <= {MATRIX, WEIGHT, MAPPING, *LEXICON}:
        return None
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        dtype, shape, (start, end) = DTYPES.get(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        if dtype is None or min(shape, default=0) < 1 or end - start != math.prod(shape) * dtype.itemsize:
            return None
        offset = 8 + length + start
        if start < 0 or offset % dtype.itemsize or 8 + length + end > size:
            return None
        mapped = np.memmap(path, dtype, "r", offset, shape)
        # Rewriting a file while it is mapped would crash the process.
        tensors[name] = mapped.view(np.ndarray) if path.is_relative_to(OWN) else np.array(mapped)
    return tensors


def speaks_of_something(known: NDArray[np.bool_], meaning: NDArray[np.bool_], words: int = 0) -> bool:
    """Return whether a model knows enough of a text's tokens.

    `known` and `meaning` say of each token of the tokenizer whether the model knows its meaning, and whether it has
    any; `words` is the number of tokens of the lexicon, which are all known.
    """
    count = int(np.count_nonzero(known)) + words
    return count > 0 and count >= KNOWN_SHARE * (int(np.count_nonzero(meaning)) + words)


def unit(mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale a vector to length 1; zeros stay as they are."""
    return mean / (float(np.linalg.norm(mean)) or 1.0)


def norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return the lengths of rows."""
    floats = vectors.astype(np.float32)
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    return lengths


MOST = 127
"""Largest component of a stored vector; each vector has its own scale, as cosine ignores length."""


def quantise(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Convert vectors of shape (dimensions,) or (n, dimensions) to int8, each scaled to the whole range."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
    return np.rint(vectors * (MOST / np.where(largest, largest, 1))).astype(np.int8)


def similarity(blobs: Sequence[bytes], vector: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the cosine similarity of stored int8 vectors to an int8 one, to the last bit as sqlite-vec computes it."""
    if not blobs:
        return np.zeros(0)
    # Integers below 2^24 are exact as float32, so the order of summation does not matter.
    stored = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    query = vector.astype(np.float32)
    product, squares = (stored @ query).astype(np.float64), np.einsum("ij,ij->i", stored, stored).astype(np.float64)
    distance = 1 - product / (np.sqrt(squares) * np.sqrt(float(query @ query)))
    cosine: NDArray[np.float64] = 1 - distance.astype(np.float32).astype(np.float64)
    return cosine


def is_foreign_letter(token: str) -> bool:
    """Return whether a token is a single non-ASCII letter: the tokenizer has no words of its script."""
    letters = token.removeprefix(CONTINUED)
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()


PIECES = "pieces.txt"
"""File with the ASCII tokens and their ids, one per line, sorted by bytes."""

MEDIAN_NORM = 322.79
"""Median length of the packaged model's rows; checked by tests/models/test_query_vectors.py."""

UNKNOWN_ID = 1
"""Token of a word that cannot be split into known pieces."""

LONGEST_PIECE = 18

LONGEST_PLAIN = 8_000
"""Characters of the longest text whose words are looked up here; for others, loading the tokenizer is faster."""

LONGEST_WORD = 100
"""Characters of the longest word that is split; longer ones are unknown (BERT's rule)."""

WORDS_KEPT = 16_384
"""Words whose tokens are cached, as queries and texts repeat words: some 3 MB."""

_WORDS = re.compile(WORD_OR_MARK)


class QueryVectors:
    """The part of the packaged model that queries need, read from its folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        try:
            tensors = read_tensors(folder / WEIGHTS) or {}
            self._matrix, self._lexicon = tensors[MATRIX], Lexicon(tensors, len(tensors[MATRIX]))
            self._pieces = (folder / PIECES).read_bytes().splitlines()
        except (OSError, KeyError, ValueError) as error:
            raise EmbedderError(f"Cannot load the embedding model {str(folder)!r}: {error}") from error
        self.dimensions = int(self._matrix.shape[1])
        self._tokens = dict[str, list[int]]()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return one vector per text, or None if one needs the tokenizer; see `Embedder.embed`."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for plain, vector in zip(self.plain_tokens(texts), vectors, strict=True):
            if plain is None:
                return None
            tokens, words = self._lexicon.apart(np.array(plain, np.int64))
            rows, unknown = self._matrix.take(tokens, 0).astype(np.float32), tokens == UNKNOWN_ID
            informative = norms(rows) > INFORMATIVE_NORM * MEDIAN_NORM
            if speaks_of_something(informative & ~unknown, informative | unknown, len(words)):
                vector[:] = unit(np.concatenate([rows[~unknown], words]).sum(0))
        return vectors

    def longest(self, text: str) -> float:
        """Return the length of the longest token vector of a text, relative to the median, or 0 if none is known."""
        return float(norms(self._rows([text])[0]).max(initial=0.0)) / MEDIAN_NORM

    def cohesion(self, texts: Sequence[str]) -> float:
        """Return the length of the mean of some texts' unit vectors, ignoring unknown texts."""
        directions = self._directions(texts)
        known = directions[directions.any(1)]
        return float(np.linalg.norm(known.mean(0))) if len(known) else 0.0

    def nearest(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return the largest cosine of each text to one of the others, at least 0."""
        return [*map(float, (self._directions(texts) @ self._directions(others).T).max(1, initial=0.0))]

    def _directions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of texts; zeros for an unknown one."""
        rows, counts = self._rows(texts)
        sums, starts = np.zeros((len(texts), self.dimensions), np.float32), np.cumsum(counts) - counts
        for place in range(max(counts, default=0)):  # most have one token
            more = counts > place
            sums[more] += rows[starts[more] + place]
        directions: NDArray[np.float32] = sums / norms(sums).clip(1)[:, None]
        return directions

    def _rows(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the vectors of the known tokens of texts, in the unit of int8 rows, and how many each text has."""
        found = [tokens or [] for tokens in self.plain_tokens(texts)]
        tokens, owners = np.array([*chain(*found)], np.int64), np.repeat(np.arange(len(found)), [*map(len, found)])
        known = tokens != UNKNOWN_ID
        tokens, counts = tokens[known], np.bincount(owners[known], minlength=len(found))
        rows, own = np.empty((len(tokens), self.dimensions), np.float32), tokens < self._lexicon.first
        pieces, rows[~own] = self._lexicon.apart(tokens)
        rows[own] = self._matrix.take(pieces, 0)
        return rows, counts

    def plain_tokens(self, texts: Iterable[str]) -> list[list[int] | None]:
        """Return the token ids of texts, ignoring case; None for one that needs the tokenizer."""
        self._tokens = known = self._tokens if len(self._tokens) <= WORDS_KEPT else {}
        words = [[text] if text in known else _words_of(text) for text in texts]
        new, found = set(chain.from_iterable(filter(None, words))).difference(known), list[list[int] | None]()
        listed = self._lexicon.tokens(new) if new else {}
        for word in new:
            tokens, rest = listed.get(word, ([], word))
            for part in _WORDS.findall(rest):
                tokens = [*tokens, *_looked_up(self._pieces, part.lower())]
            known[word] = tokens if rest.isascii() else []  # the tokenizer knows more
        for own in words:
            ids = [known[word] for word in own or ()]
            found.append([*chain(*ids)] if own is not None and all(ids) else None)
        return found


def _words_of(text: str) -> list[str] | None:
    """Return the words of a text that is short and has no mark with which special tokens start, else None."""
    plain = len(text) <= LONGEST_PLAIN and "[" not in text and text.replace("\n", " ").isprintable()
    return _WORDS.findall(known_marks(text)) if plain else None


def _looked_up(pieces: Sequence[bytes], word: str) -> list[int]:
    """Split a lower-case word into the longest known pieces."""
    numbers, start = list[int](), 0
    while start < len(word) <= LONGEST_WORD:
        mark = CONTINUED if start else ""
        for end in range(min(len(word), start + LONGEST_PIECE), start, -1):
            key = f"{mark}{word[start:end]} ".encode()
            at = bisect_left(pieces, key)
            if at < len(pieces) and pieces[at].startswith(key):
                break
        else:
            return [UNKNOWN_ID]
        numbers.append(int(pieces[at][len(key) :]))
        start = end
    return numbers or [UNKNOWN_ID]
