"""Does the first hit's excerpt show the line that answers, and how much must be read until it is seen?

    python benchmarks/excerpts.py OWNER/NAME=FOLDER… [--questions FILE] [--list]

`excerpts.jsonl` has questions on public documentation, each with the lines of which one answers; FOLDER is the
repository at the commit of its questions. Questions on others are left out. Excerpts are judged where the document is
first, by what the tool `search` tells a model.

With `grep`, the reader looks for the two rarest of the question's words that occur, in any case, and gets at most 250
lines; with kbhub, the answer of `search`. Whoever has not seen the line then reads whole documents, the best first
(hits; files with most matches), at most five. The characters count, of questions where both find the line.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from bench.common import environment, parser
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.render.search import search_answer
from kbhub.types import Query

QUESTIONS = Path(__file__).with_suffix(".jsonl")
MATCHES = 250
"""Lines of a `grep` that agents' tools show."""

DOCUMENTS = 5
"""Whole documents that are read before giving up."""

TARGET = re.compile(r"\]\([^)\s]*\)|\]\[[^\]]*\]|!\[\[[^\[\]]*\]\]|(?<=\[\[)[^\[\]|]*\|")
"""Target of a link, or an embedded file, which an excerpt may leave out."""


def words(text: str) -> str:
    """Leave letters and digits, so that line ends and markup do not count."""
    return " ".join(re.findall(r"\w+", TARGET.sub("]", text)))


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("sources", nargs="+", metavar="OWNER/NAME=FOLDER")
    reading.add_argument("--questions", type=Path, default=QUESTIONS)
    reading.add_argument("--list", action="store_true", help="list the questions whose line is not shown, with answers")
    arguments = reading.parse_args()
    questions = defaultdict[str, list[dict[str, Any]]](list)
    for line in arguments.questions.read_text("utf-8").splitlines():
        questions[(one := json.loads(line))["repository"]].append(one)
    print(
        "| documentation | questions | document first | line shown | of these | characters |\n|---|---|---|---|---|---|"
    )
    totals, missed = [0, 0, 0], list[str]()
    lengths, costs = list[int](), list[tuple[int | None, int | None]]()
    for source in arguments.sources:
        name, _, folder = source.partition("=")
        counts, sizes = [len(questions[name]), 0, 0], list[int]()
        documents = {path.relative_to(folder).as_posix(): path.read_text("utf-8", "replace") for path in files(folder)}
        for question, first, shown, text, hits in asked(Path(folder).resolve(), questions[name]):
            costs.append((reading_cost(text, hits, question, documents), grep_cost(question, documents)))
            counts[1] += first
            counts[2] += first and shown
            sizes.append(len(text))
            if first and not shown:
                missed.append(f"\n## {question['path']}:{question['lines'][0]} {question['question']}\n\n{text}")
        print(row(name, counts, sizes))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lengths += sizes
    print(row("all", totals, lengths))
    both = [(ours, theirs) for ours, theirs in costs if ours is not None and theirs is not None]
    found = [sum(cost[side] is not None for cost in costs) for side in (0, 1)]
    means = [statistics.mean(cost[side] for cost in both) for side in (0, 1)]
    middles = [statistics.median(cost[side] for cost in both) for side in (0, 1)]
    print(f"\n| until the line is seen, {len(costs)} questions | kbhub | grep and reading | ratio |\n|---|---|---|---|")
    print(f"| line found | {found[0]} | {found[1]} | |")
    print(f"| characters, mean | {means[0]:,.0f} | {means[1]:,.0f} | {means[1] / means[0]:.1f} |")
    print(f"| characters, median | {middles[0]:,.0f} | {middles[1]:,.0f} | {middles[1] / middles[0]:.1f} |")
    print(*(missed if arguments.list else ()), sep="\n")


def files(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*.md*") if path.is_file() and ".git" not in path.parts)


def sees(text: str, question: dict[str, Any], documents: dict[str, str]) -> bool:
    lines, read = documents[question["path"]].split("\n"), words(text)
    return any(words(lines[number - 1]) in read for number in question["lines"])


def reading_cost(text: str, paths: list[str], question: dict[str, Any], documents: dict[str, str]) -> int | None:
    """Characters read until the line is seen, in a first answer or in documents; None if it never is."""
    cost = len(text)
    if sees(text, question, documents):
        return cost
    for path in list(dict.fromkeys(paths))[:DOCUMENTS]:
        cost += len(documents[path])
        if path == question["path"]:
            return cost
    return None


def grep_cost(question: dict[str, Any], documents: dict[str, str]) -> int | None:
    """As `reading_cost`, with `grep` for the two rarest words."""
    found = dict[str, list[tuple[str, str]]]()
    for word in set(re.findall(r"[\w'-]{3,}", question["question"].lower())):
        lines = [(path, f"{path}:{number}:{line}") for path, text in documents.items()
                 for number, line in enumerate(text.split("\n"), 1) if word in line.lower()]  # fmt: skip
        if lines:
            found[word] = lines
    rarest = sorted(found, key=lambda word: (len(found[word]), word))[:2]
    matches = sorted({match for word in rarest for match in found[word]})
    counts = Counter(path for path, _ in matches)
    shown = "\n".join(line for _, line in matches[:MATCHES])
    return reading_cost(shown, [path for path, _ in counts.most_common()], question, documents)


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[tuple[dict[str, Any], bool, bool, str, list[str]]]:
    """Ask all questions on one documentation.

    Yields the question, whether its document is first, its line shown, the answer, and the documents found.
    """
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / ".kbhub.json").write_text(json.dumps({"bases": {"docs": str(folder)}, "repos": {"*": ["docs"]}}))
        hub = Hub(HubOptions(cwd=top, home=top, env=environment(top, top)))
        hub.sync()
        results = []
        for question in questions:
            query = Query(text=question["question"])
            found = hub.search(query)
            text, _ = search_answer(found, query, str)
            lines = (folder / question["path"]).read_text("utf-8").split("\n")
            quoted = words(text.partition("\n2. docs@")[0])
            first = bool(found.hits) and found.hits[0].path == question["path"]
            shown = any(words(lines[number - 1]) in quoted for number in question["lines"])
            results.append((question, first, shown, text, [hit.path for hit in found.hits]))
    return results


def row(name: str, counts: list[int], sizes: list[int]) -> str:
    share = counts[2] / counts[1] if counts[1] else 0.0
    return f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} | {share:.2f} | {statistics.mean(sizes or [0]):,.0f} |"


if __name__ == "__main__":
    main()
