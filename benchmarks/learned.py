"""What is learned by use, by replay: `python benchmarks/learned.py DATASET… [--rewordings FILE]`.

Each data set is a BEIR folder, as `kbhub eval` takes it. Half of its questions are asked in two sessions, and the best
document for each is read; then they are asked again in the same words, and the other half is asked, which should not
change. With other wordings of the questions (lines of `{"id": …, "queries": […]}`), a question is learned in one wording
and asked in the others. At last, what a search of a log costs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from kbhub.evaluation.corpus import NOW, Corpus, Setup, open_corpus
from kbhub.evaluation.datasets import Dataset, EvalQuery, load_dataset
from kbhub.evaluation.metrics import METRICS, judge
from kbhub.hub import Hub
from kbhub.index.querylog import Asked, Opening, QueryLog
from kbhub.models.embedding import PACKAGED_SHA256
from kbhub.search.search import search
from kbhub.search.usage import MODEL_DIGITS, LogSession, learned, log_path, question_vector
from kbhub.types import Query
from kbhub.usage.log import flush, note_read, record

DAY = 86_400
NDCG = list(METRICS).index("ndcg10")
LOGGED = 10_000
ROUNDS = 50


class Replay:
    """A corpus whose hub has a log of its own, and a clock that can be set.

    Args:
        corpus: the indexed data set.
        data: folder for the log.
        dataset: its questions.
    """

    def __init__(self, corpus: Corpus, data: Path, dataset: Dataset) -> None:
        self.now = float(NOW)
        options = corpus.hub.options
        env = {**options.env, "KBHUB_DATA_DIR": str(data)}
        self.hub = Hub(replace(options, env=env, clock=lambda: self.now))
        self._corpus, self._dataset = corpus, dataset
        self._places = {document: place for place, document in corpus.documents.items()}

    def ndcg(self, text: str, query: EvalQuery) -> float:
        asked = Query(text=text, bases=self._corpus.bases, mode="hybrid", limit=10)
        hits = search(self.hub, asked).hits
        ranked = tuple(dict.fromkeys(self._corpus.documents[hit.base, hit.path] for hit in hits))
        return float(judge(ranked, query.gold, exponential=self._dataset.exponential)[NDCG])

    def learn(self, text: str, query: EvalQuery) -> None:
        """Ask in two sessions, a day apart, and read the best document."""
        base, path = self._places[max(query.gold, key=lambda document: query.gold[document])]
        for session in ("one", "two"):
            self.hub.state(LogSession).name = f"{session} {query.id}"
            asked = Query(text=text, bases=self._corpus.bases, mode="hybrid", limit=10)
            record(self.hub, search(self.hub, asked), asked, "replay")
            self.now += 60
            note_read(self.hub, f"{base}@{path}", "replay")
            self.now += DAY
            flush()

    def forget(self) -> None:
        flush()
        log_path(self.hub).unlink(missing_ok=True)
        self.now = float(NOW)


def others(replay: Replay, queries: list[EvalQuery]) -> str:
    """Learn every second question, and ask all before and after."""
    before = [replay.ndcg(query.text, query) for query in queries]
    for query in queries[::2]:
        replay.learn(query.text, query)
    replay.now = NOW + DAY * 2.0
    after = [replay.ndcg(query.text, query) for query in queries]
    replay.forget()
    learned_, rest = (before[::2], after[::2]), (before[1::2], after[1::2])
    worse = sum(new < old - 1e-9 for old, new in zip(*rest, strict=True))
    return f"learned {_change(*learned_)}, others {_change(*rest)} ({worse} of {len(rest[0])} worse)"


def reworded(replay: Replay, queries: list[EvalQuery], wordings: Mapping[str, list[str]]) -> Iterable[str]:
    """Learn every second question in one of its wordings, and ask all in the others."""
    for number in range(len(next(iter(wordings.values())))):

        def texts(query: EvalQuery, number: int = number) -> list[str]:
            return [query.text, *(text for at, text in enumerate(wordings[query.id]) if at != number)]

        before = [[replay.ndcg(text, query) for text in texts(query)] for query in queries]
        for query in queries[::2]:
            replay.learn(wordings[query.id][number], query)
        replay.now = NOW + DAY * 2.0
        after = [[replay.ndcg(text, query) for text in texts(query)] for query in queries]
        replay.forget()
        parts = []
        for name, begin in (("learned", 0), ("others", 1)):
            for what, pick in (("the question", slice(0, 1)), ("other wordings", slice(1, None))):
                old, new = ([value for row in rows[begin::2] for value in row[pick]] for rows in (before, after))
                parts.append(f"{name}, {what}: {_change(old, new)}")
        yield f"learned in wording {number + 1}: " + "; ".join(parts)


def cost(replay: Replay, texts: list[str]) -> Iterable[str]:
    """Time to look up what was learned: without a log, with an empty one, and with 10,000 queries that all taught."""
    yield f"no log: {_milliseconds(replay, texts)}"
    log, model = QueryLog(log_path(replay.hub)), PACKAGED_SHA256[:MODEL_DIGITS]
    log.write([])
    yield f"nothing learned: {_milliseconds(replay, texts)}"
    entries: list[Asked | Opening] = []
    for number in range(LOGGED):
        text, session = f"{texts[number % len(texts)]} {number}", str(number)
        at = replay.now - DAY * 30 + number
        entries.append(
            Asked(
                at, text, text, text, "hybrid", (), "weak", 0.1, "replay", (), (), session, model, question_vector(text)
            )
        )
        entries.append(Opening(at, (f"all@{number % 500}.md",), "replay", session))
    log.write(entries)
    yield f"{LOGGED} queries: {_milliseconds(replay, texts)}"


def _milliseconds(replay: Replay, texts: list[str]) -> str:
    """Return the medians for questions asked for the first time, whose neighbours' words are not known yet, and again."""
    medians = []
    for _ in range(2):
        times = []
        for text in texts[:ROUNDS]:
            started = time.perf_counter()
            learned(replay.hub, text, replay.now)
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times) * 1000)
    return "{:.2f} ms, asked again {:.2f} ms".format(*medians)


def _change(before: list[float], after: list[float]) -> str:
    old, new = statistics.fmean(before), statistics.fmean(after)
    return f"{old:.3f} → {new:.3f} ({new - old:+.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="+", type=Path)
    parser.add_argument("--rewordings", type=Path, help="other wordings, for the data set that has these questions")
    chosen = parser.parse_args()
    rows = map(json.loads, chosen.rewordings.read_text("utf-8").splitlines()) if chosen.rewordings else ()
    wordings = {row["id"]: row["queries"] for row in rows}
    for number, folder in enumerate(chosen.dataset):
        dataset = load_dataset(folder)
        # A question whose answer is a section is left to `kbhub eval`: a reading is of a document.
        ids = {document.id for document in dataset.documents}
        queries = [query for query in dataset.queries if ids.issuperset(query.gold) and query.gold]
        if not queries:
            print(f"{folder.name}: no question is answered by a whole document")
            continue
        data = Path(tempfile.mkdtemp(prefix="kbhub-learned-"))
        try:
            replay = Replay(open_corpus(dataset, Setup(dict(os.environ))), data, dataset)
            print(f"{folder.name}: {others(replay, queries)}", flush=True)
            if all(query.id in wordings for query in queries):
                for line in reworded(replay, queries, wordings):
                    print(f"  {line}", flush=True)
            if number == 0:
                for line in cost(replay, [query.text for query in queries]):
                    print(f"  {line}", flush=True)
        finally:
            flush()
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
