"""Make the packaged model's words of other languages: `python benchmarks/lexicon.py PAIRS.jsonl MODEL.safetensors`.

PAIRS.jsonl is what lexicon_sources.py writes; MODEL.safetensors becomes the packaged model. Needs scipy besides kbhub,
and torch 2.13 without `--add`; 12 minutes and 5 GB on two cores. Nothing of an evaluation set is in it.

`--add WORDS.txt` adds Arabic, Hindi, Thai and Greek to the packaged model, whose other words stay as they are; the file
has Thai words, a line each. The packaged model was made by a call without it, and one with it on the result.

The teacher is the packaged model itself on the English side, so English vectors stay as they are. A translation's vector
is the sum of its words' rows and of the English pieces of all other words; Adam makes its cosine to the teacher's large.
Pages of FastAPI's documentation and emoji by `held_out` are left out, to measure with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.models.static_model import (
    ENGLISH,
    LEVELS,
    MATRIX,
    MIDDLE,
    ROWS,
    SHORTEST,
    STEPS,
    WORD_OR_MARK,
    WORDS,
    characters,
    is_foreign_letter,
    is_run,
    is_thai,
    load_model,
    longest,
    read_tensors,
    stems,
    units,
    word_hash,
)
from lexicon_sources import LANGUAGES, NEW, held_out

FULL = ("de", "es", "vi", "ru", "zh")
"""Languages all of whose words are kept; of the others the `MOST_WORDS` most frequent."""

MOST_WORDS = 6000
LEAST_COUNT, LEAST_ADDED, LEAST_PAIRS = 2, 3, 5
"""How often a word, one that `--add` adds, and a pair of Han or Kana, must occur."""

ENGLISH_SHARE = 0.1
"""A word of ASCII letters that occurs this often as frequently on the English side is left to its English pieces."""

SHORT = 5
"""A word that occurs once is kept if its text has at most so many words: what it means is clear."""

LIGHT = {"unihan": 0.5, "geonames": 0.5, "osmterm": 0.5}
"""Weight of the pairs of some sources; others have 1."""

UNIT = 100
"""int8 units of the packaged model for 1 here."""

EPOCHS, BATCH, RATE, TO_STEM = 3, 8192, 0.02, 0.15
"""TO_STEM: share of words that are taken for their stem, so that stems are trained, too."""

MERGED, MERGED_ADDED, PREFIX = 0.6, 0.5, 5
"""Words with the same first letters (two of Hangul) and this cosine share a row: they are forms of one word."""

DENSITY = 0.335
"""Step between two of 16 levels as a share of the standard deviation: the least error for a normal distribution (Max,
Quantizing for Minimum Distortion, 1960)."""

HANGUL = re.compile("[\uac00-\ud7af]")
INFLECTED = re.compile("[\u0370-\u052f\u0900-\u0963]")
"""Cyrillic, Greek, Devanagari."""

ADDED = re.compile("[\u0370-\u03ff\u0600-\u06ff\u0900-\u097f\u0e01-\u0e4e]+")
"""Scripts of the languages that `--add` adds."""


def words_of(text: str, thai: frozenset[str]) -> list[str]:
    every = (unit for word in re.findall(WORD_OR_MARK, text) for unit in units(word))
    return [part for unit in every for part in (longest(unit, thai) if is_thai(unit) else (unit,))]


def is_pairs(word: str) -> bool:
    return is_run(word) and not is_thai(word)


def keys_of(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield from (
            characters(word) if is_pairs(word) else [word, *(stem for stem in stems(word) if len(stem) <= len(word))]
        )


class Teacher:
    """The English part of the packaged model."""

    def __init__(self, folder: Path) -> None:
        model = load_model(str(folder))
        self.tokenizer, self.rows = model.tokenizer, model.embedding.astype(np.float32) / UNIT
        self.vocabulary = self.tokenizer.get_vocab()
        self.mute = {
            number
            for name, number in self.vocabulary.items()
            if is_foreign_letter(name) or not any(map(str.isalnum, name))
        }
        if model.unk_token_id is not None:
            self.mute.add(model.unk_token_id)
        self.seen: dict[str, list[int]] = {}

    def pieces(self, word: str) -> list[int]:
        if word not in self.seen:
            ids = self.tokenizer.encode(word, add_special_tokens=False).ids
            self.seen[word] = [number for number in ids if number not in self.mute]
        return self.seen[word]

    def vector(self, words: list[str]) -> np.ndarray:
        total = self.rows[[number for word in words for number in self.pieces(word)]].sum(0)
        return total / (np.linalg.norm(total) or 1)


class Texts:
    """All pairs, as numbers."""

    def __init__(self, file: Path, teacher: Teacher, languages: tuple[str, ...], thai: frozenset[str]) -> None:
        rows = (pair for pair in map(json.loads, file.open(encoding="utf-8")) if pair[0] in languages)
        pairs = [pair for pair in rows if not held_out(pair[1], pair[2])]
        english = {text: number for number, text in enumerate(sorted({pair[3] for pair in pairs}))}
        originals = [words_of(text, thai) for text in english]
        self.english = Counter(chain.from_iterable(originals))
        targets = np.array([teacher.vector(words) for words in originals], np.float32)
        pairs = [pair for pair in pairs if targets[english[pair[3]]].any()]
        self.targets, self.target = targets, np.array([english[pair[3]] for pair in pairs])
        self.languages, self.sources = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self.words = [words_of(pair[4], thai) for pair in pairs]
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        for language, words in zip(self.languages, self.words, strict=True):
            self.counts[language].update(keys_of(words))


def is_english(word: str, count: int, texts: Texts, teacher: Teacher) -> bool:
    return word.isascii() and (
        word in teacher.vocabulary or texts.english[word] >= ENGLISH_SHARE * count or not any(map(str.isalpha, word))
    )


def vocabulary(texts: Texts, teacher: Teacher) -> dict[str, int]:
    """Key → how often it occurs."""

    def enough(key: str, count: int) -> bool:
        if is_pairs(key):
            return len(key) == 1 or count >= LEAST_PAIRS
        return count >= LEAST_COUNT and 1 < len(key) < 30 and not is_english(key, count, texts, teacher)

    total = sum(texts.counts.values(), Counter())
    return {key: count for key, count in total.most_common() if enough(key, count)}


class Student:
    """Rows of the keys, and what the texts have besides."""

    def __init__(self, texts: Texts, teacher: Teacher, keys: dict[str, int]) -> None:
        self.number = {key: number for number, key in enumerate(keys)}
        self.random = np.random.default_rng(0)
        found, ends = [], [0]
        self.rest = np.zeros((len(texts.words), teacher.rows.shape[1]), np.float16)
        for row, words in enumerate(texts.words):
            own, pieces = self.split(words, teacher)
            found += own
            ends.append(len(found))
            if pieces:
                self.rest[row] = teacher.rows[pieces].sum(0)
        self.found, self.ends = np.array(found), np.array(ends)
        self.weights = np.array([LIGHT.get(source, 1) for source in texts.sources], np.float32)
        self.rows = self.first_rows(texts)

    def split(self, words: list[str], teacher: Teacher) -> tuple[list[int], list[int]]:
        own, pieces = [], []
        for word in words:
            if is_pairs(word):
                own += [self.number[key] for key in characters(word) if key in self.number]
                continue
            stem = self.number.get(next(iter(stems(word)), ""))
            number = self.number.get(word)
            if stem is not None and (number is None or self.random.random() < TO_STEM):
                number = stem
            if number is None:
                pieces += teacher.pieces(word)
            else:
                own.append(number)
        return own, pieces

    def first_rows(self, texts: Texts) -> np.ndarray:
        """Mean of the teacher's vectors of a key's texts, less that of all, and less for frequent keys."""
        lengths = np.diff(self.ends)
        at = np.repeat(np.arange(len(lengths)), lengths)
        share = (self.weights / np.sqrt(np.maximum(lengths, 1)))[at].astype(np.float32)
        matrix = scipy.sparse.csr_matrix((share, (self.found, at)), shape=(len(self.number), len(lengths)))
        vectors, total = texts.targets[texts.target], np.asarray(matrix.sum(1))
        rows = matrix @ vectors / (total + 1) - vectors.mean(0) * (total / (total + 1))
        frequency = np.bincount(self.found, minlength=len(self.number)) / len(self.found)
        return (4 * rows * (1e-3 / (1e-3 + frequency))[:, None]).astype(np.float32)

    def train(self, texts: Texts) -> np.ndarray:
        import torch

        rows = torch.nn.Parameter(torch.from_numpy(self.rows))
        adam = torch.optim.Adam([rows], lr=RATE, betas=(0.9, 0.99))
        lengths, targets = np.diff(self.ends), torch.from_numpy(texts.targets)
        usable = np.nonzero(lengths)[0]
        steps = EPOCHS * (len(usable) // BATCH)
        for epoch in range(EPOCHS):
            started, order, losses = time.time(), self.random.permutation(usable), []
            for start in range(0, len(order) - BATCH + 1, BATCH):
                chosen = np.sort(order[start : start + BATCH])
                begins = np.concatenate([[0], np.cumsum(lengths[chosen])[:-1]])
                numbers = self.found[
                    np.repeat(self.ends[chosen] - begins, lengths[chosen]) + np.arange(lengths[chosen].sum())
                ]
                sums = torch.nn.functional.embedding_bag(
                    torch.from_numpy(numbers), rows, torch.from_numpy(begins), mode="sum"
                )
                vectors = torch.nn.functional.normalize(
                    sums + torch.from_numpy(self.rest[chosen].astype(np.float32)), dim=1, eps=1e-6
                )
                cosines = (vectors * targets[texts.target[chosen]]).sum(1)
                loss = ((1 - cosines) * torch.from_numpy(self.weights[chosen])).mean()
                step = epoch * (len(order) // BATCH) + len(losses)
                adam.param_groups[0]["lr"] = RATE * min(1, (step + 1) / 30) * (1 - step / steps) + 1e-4
                adam.zero_grad()
                loss.backward()
                adam.step()
                losses.append(loss.item())
            print(f"epoch {epoch} loss {np.mean(losses):.4f} {time.time() - started:.0f}s", flush=True)
        return rows.detach().numpy()

    def train_few(self, texts: Texts) -> np.ndarray:
        """The same for fewer texts, in smaller batches."""
        lengths = np.diff(self.ends)
        matrix = scipy.sparse.csr_matrix(
            (np.ones(len(self.found), np.float32), self.found, self.ends), shape=(len(lengths), len(self.number))
        )
        usable, rows = np.nonzero(lengths)[0], self.rows
        size, epochs = BATCH // 4, 2 * EPOCHS
        count = epochs * (len(usable) // size)
        mean, square, step = np.zeros_like(rows), np.zeros_like(rows), 0
        for epoch in range(epochs):
            order, losses = self.random.permutation(usable), []
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size]
                sums = matrix[chosen] @ rows + self.rest[chosen].astype(np.float32)
                norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
                vectors, targets = sums / norms, texts.targets[texts.target[chosen]]
                cosines = (vectors * targets).sum(1, keepdims=True)
                weights = self.weights[chosen][:, None]
                losses.append(float(((1 - cosines) * weights).mean()))
                slope = matrix[chosen].T @ (weights * (vectors * cosines - targets) / norms / size)
                step += 1
                mean += 0.1 * (slope - mean)
                square += 0.01 * (slope * slope - square)
                rate = RATE * min(1, step / 30) * (1 - step / (count + 1)) + 1e-4
                rows -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
            print(f"epoch {epoch} loss {np.mean(losses):.4f}", flush=True)
        return rows


def rare_words(texts: Texts, teacher: Teacher, student: Student, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Words that occur once, in a short text: half of what its other words leave of the teacher's vector."""
    found: dict[str, np.ndarray] = {}
    length = float(np.median(np.linalg.norm(rows, axis=1)))
    for language, source, target, words in zip(texts.languages, texts.sources, texts.target, texts.words, strict=True):
        if language not in FULL or source in LIGHT or len(words) > SHORT or any(map(is_pairs, words)):
            continue
        new = [
            word
            for word in words
            if texts.counts[language][word] == 1
            and word not in student.number
            and SHORTEST <= len(word) < 30
            and word.isalpha()
            and not (word.isascii() and (word in teacher.vocabulary or texts.english[word]))
        ]
        if len(new) == 1:
            others = [rows[student.number[word]] for word in words if word in student.number]
            left = 4 * texts.targets[target] - 0.5 * np.sum(others, 0)
            found[new[0]] = left * (length / np.linalg.norm(left))
    return found


def merged(keys: list[str], counts: list[int], rows: np.ndarray, least: float) -> tuple[dict[str, int], np.ndarray]:
    """Key → row, and the rows: forms of a word share one."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        groups[key if is_pairs(key) else key[: 2 if HANGUL.search(key) else PREFIX]].append(number)
    directions = rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9)
    row_of: dict[str, int] = {}
    made: list[np.ndarray] = []
    for group in groups.values():
        leaders: list[int] = []
        sums: list[np.ndarray] = []
        weights: list[float] = []
        for number in sorted(group, key=lambda one: -counts[one]):
            cosines = directions[leaders] @ directions[number] if leaders else np.zeros(1)
            at, weight = int(cosines.argmax()), math.sqrt(counts[number])
            if cosines[at] <= least:
                at = len(leaders)
                leaders.append(number)
                sums.append(np.zeros_like(rows[0]))
                weights.append(0)
            sums[at] = sums[at] + weight * rows[number]
            weights[at] += weight
            row_of[keys[number]] = len(made) + at
        made += [total / weight for total, weight in zip(sums, weights, strict=True)]
    return row_of, np.array(made, np.float32)


def completed(row_of: dict[str, int], counts: dict[str, int], texts: Texts, teacher: Teacher) -> dict[str, int]:
    """With inflected words without their last letters, and English words, which keep their pieces."""
    listed = dict(row_of)
    for key in sorted(row_of, key=lambda one: -counts.get(one, 1)):
        if INFLECTED.search(key) and not key.endswith("*"):
            for end in (len(key) - 1, len(key) - 2):
                if end >= SHORTEST:
                    listed.setdefault(key[:end], row_of[key])
    for word in teacher.vocabulary:
        if word.isascii() and word.isalnum():
            listed.setdefault(word, ENGLISH)
    for word, count in texts.english.items():
        if count >= LEAST_COUNT and word.isascii() and word.isalpha() and len(word) > SHORTEST:
            listed.setdefault(word, ENGLISH)
    return listed


def packed(listed: dict[str, int], rows: np.ndarray, folder: Path, *, add: bool) -> bytes:
    """The bytes of a safetensors file, with the English rows as they are, and all others too if some are added."""
    scaled = rows * UNIT
    steps = np.clip(np.rint(DENSITY * scaled.std(1)), 1, 255).astype(np.uint8)
    levels = np.clip(np.rint(scaled / steps[:, None] + MIDDLE), 0, 2 * MIDDLE).astype(np.uint8)
    hashes = np.frombuffer(b"".join(map(word_hash, listed)), "<u8")
    order = np.argsort(hashes)
    order_rows = np.array(list(listed.values()), np.int32)
    packed_levels = levels[:, ::2] | levels[:, 1::2] << 4
    old = read_tensors(folder / "model.safetensors") or {}
    if add:
        new = ~np.isin(hashes, old[WORDS])
        hashes = np.concatenate([old[WORDS], hashes[new]])
        order_rows = np.concatenate([old[ROWS], (order_rows + len(old[STEPS]))[new]])
        packed_levels, steps = np.concatenate([old[LEVELS], packed_levels]), np.concatenate([old[STEPS], steps])
        order = np.argsort(hashes)
    tensors: dict[str, tuple[str, Any]] = {
        MATRIX: ("I8", old[MATRIX]),
        WORDS: ("U64", hashes[order]),
        ROWS: ("I32", order_rows[order]),
        LEVELS: ("U8", packed_levels),
        STEPS: ("U8", steps),
    }
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--add", type=Path)
    arguments = parser.parse_args()
    teacher = Teacher(PACKAGED_MODEL)
    thai = frozenset(arguments.add.read_text("utf-8").split() if arguments.add else ())
    full = NEW if thai else FULL
    texts = Texts(arguments.pairs, teacher, NEW if thai else tuple(code for code in LANGUAGES if code not in NEW), thai)
    counts = vocabulary(texts, teacher)
    if thai:
        counts = {key: count for key, count in counts.items() if ADDED.fullmatch(key.rstrip("*"))}
    student = Student(texts, teacher, counts)
    print(f"{len(texts.words)} pairs, {len(counts)} words", flush=True)
    rows = student.train_few(texts) if thai else student.train(texts)
    most = [{key for key, _ in texts.counts[language].most_common() if key in counts} for language in full]
    most += [
        set([key for key, _ in of.most_common() if key in counts][:MOST_WORDS])
        for language, of in texts.counts.items()
        if language not in full
    ]
    kept = {key for key in set().union(*most) if not thai or counts[key] >= LEAST_ADDED}
    rare = {} if thai else rare_words(texts, teacher, student, rows)
    keys = [key for key in counts if key in kept] + list(rare)
    vectors = np.concatenate(
        [
            rows[[student.number[key] for key in counts if key in kept]],
            np.array(list(rare.values()), np.float32).reshape(-1, rows.shape[1]),
        ]
    )
    row_of, made = merged(keys, [counts.get(key, 1) for key in keys], vectors, MERGED_ADDED if thai else MERGED)
    listed = completed(row_of, counts, texts, teacher)
    if thai:
        listed = {key: row for key, row in listed.items() if row != ENGLISH}
    data = packed(listed, made, PACKAGED_MODEL, add=bool(thai))
    arguments.model.write_bytes(data)
    print(
        f"{len(keys)} words, {len(listed)} keys, {len(made)} rows, {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
    )


if __name__ == "__main__":
    main()
