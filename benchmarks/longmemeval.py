"""How well sessions are found in LongMemEval: `python benchmarks/longmemeval.py longmemeval_s.json [--limit N]`.

Each question of the published file has a base of its own with its sessions as documents, titled with their date, and is
asked at its own date. By kind of question: the share of questions with any, and with all, of the sessions that have
their evidence among the first 5 and 10, with one of them at the top (R@1), and the reciprocal rank of the first.
Questions without an answer are left out.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.common import parser
from dialogues import SHOWN
from kbhub.extensions.lab.corpus import NOW, EvalPlan, Setup, ask, open_corpus
from kbhub.extensions.lab.datasets import Dataset, EvalDocument, EvalQuery
from kbhub.extensions.lab.measurement import METRICS, judge
from kbhub.search.document_signals import written_day

DEPTH = 10


def haystacks(file: Path) -> Iterator[tuple[Dataset, float | None]]:
    """Yield each question that has an answer, with its sessions as documents, and when it was asked."""
    for row in json.loads(file.read_bytes()):
        sessions = zip(row["haystack_session_ids"], row["haystack_dates"], row["haystack_sessions"], strict=True)
        documents = []
        for number, (name, date, turns) in enumerate(sessions, 1):
            lines = [f"# {date.replace('/', '-')}\n"]
            lines += [f"{turn['role'].capitalize()}: {' '.join(turn['content'].split())}" for turn in turns]
            documents.append(EvalDocument(str(name), f"{number:04}.md", "\n".join(lines).encode("utf-8", "replace")))
        gold = dict.fromkeys(map(str, row["answer_session_ids"]), 1)
        query = EvalQuery(row["question_id"], str(row["question"]), gold, row["question_type"])
        if not query.id.endswith("_abs"):
            asked = written_day(row["question_date"].replace("/", "-"))
            yield Dataset(file.stem, tuple(documents), (query,)), asked


def figures(file: Path, limit: int | None = None) -> dict[str, list[tuple[float, ...]]]:
    """Return kind of question → the metrics of each of its questions."""
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for part, asked in islice(haystacks(file), limit):
        with tempfile.TemporaryDirectory(prefix="haystack-") as folder:
            corpus = open_corpus(part, Setup(dict(os.environ), cache=Path(folder)), now=asked or NOW)
            ((query,), (result,)) = part.queries, ask(corpus, part.queries, EvalPlan("hybrid"), depth=DEPTH)
        found[query.stratum].append(judge(result.ranked, query.gold))
    return {"all": [one for some in found.values() for one in some], **found}


def main() -> None:
    """Print the figures."""
    arguments = parser(__doc__)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--limit", type=int)
    given = arguments.parse_args()
    print("| | questions | " + " | ".join(SHOWN.values()) + " |")
    for kind, rows in figures(given.file, given.limit).items():
        means = dict(zip(METRICS, (sum(column) / len(rows) for column in zip(*rows, strict=True)), strict=True))
        print(f"| {kind} | {len(rows)} | " + " | ".join(f"{means[name]:.3f}" for name in SHOWN) + " |")


if __name__ == "__main__":
    main()
