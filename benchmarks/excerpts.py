"""Does the first hit's excerpt show the line that answers?

    python benchmarks/excerpts.py OWNER/NAME=FOLDER… [--questions FILE] [--list]

`excerpts.jsonl` has questions on public documentation, each with the lines of which one answers; FOLDER is the
repository at the commit of its questions. Questions on others are left out. Judged are those whose document is first,
by what the tool `search` tells a model.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.common import environment, parser
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.render.search import search_answer
from kbhub.types import Query

QUESTIONS = Path(__file__).with_suffix(".jsonl")
TARGET = re.compile(r"\]\([^)\s]*\)|\]\[[^\]]*\]")
"""Target of a link, which an excerpt may leave out."""


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
    lengths = list[int]()
    for source in arguments.sources:
        name, _, folder = source.partition("=")
        counts, sizes = [len(questions[name]), 0, 0], list[int]()
        for question, first, shown, text in asked(Path(folder).resolve(), questions[name]):
            counts[1] += first
            counts[2] += first and shown
            sizes.append(len(text))
            if first and not shown:
                missed.append(f"\n## {question['path']}:{question['lines'][0]} {question['question']}\n\n{text}")
        print(row(name, counts, sizes))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lengths += sizes
    print(row("all", totals, lengths))
    print(*(missed if arguments.list else ()), sep="\n")


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[tuple[dict[str, Any], bool, bool, str]]:
    """Ask all questions on one documentation: the question, whether its document is first, its line shown, the answer."""
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
            results.append((question, first, shown, text))
    return results


def row(name: str, counts: list[int], sizes: list[int]) -> str:
    share = counts[2] / counts[1] if counts[1] else 0.0
    return f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} | {share:.2f} | {statistics.mean(sizes or [0]):,.0f} |"


if __name__ == "__main__":
    main()
