"""Does a verdict tell the questions that a base answers from questions about the same subject that it does not?

    python benchmarks/verdicts.py OWNER/NAME=FOLDER… [--mode MODE]

Half of the questions in `verdicts.jsonl`, and all in `excerpts.jsonl`, have an answer; the others were written to sound
the same, and no page answers them. FOLDER is the repository at the commit of its questions; of jbranchaud/til, only the
folders git, tmux and workflow; of alphagov/gds-way, with its files `*.html.md.erb` called `*.html.md`. Questions on
others are left out. Counts what `ask` without a model does with them, too.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from bench.common import environment, parser
from excerpts import QUESTIONS
from kbhub.answers.question import NEAREST_TEXT, ask
from kbhub.extensions.lab.measurement import area_under_curve
from kbhub.hub import Hub, HubOptions
from kbhub.search.search import search
from kbhub.sync.freshness import sync
from kbhub.types import Mode, Query

CASES = ((True, "answered"), (False, "not answered"))


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("sources", nargs="+", metavar="OWNER/NAME=FOLDER")
    reading.add_argument("--mode", choices=("hybrid", "keyword"), default="hybrid")
    arguments = reading.parse_args()
    rows = [
        *({**json.loads(line), "answered": True} for line in QUESTIONS.read_text("utf-8").splitlines()),
        *map(json.loads, Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()),
    ]
    print("| base | questions | AUC | strong | none | of the others: strong | none | written by `ask`, surely or not |")
    print("|---|---|---|---|---|---|---|---|")
    for source in arguments.sources:
        name, _, folder = source.partition("=")
        questions = {row["question"]: row["answered"] for row in rows if row["repository"] == name}
        print(f"| {name} | {judged(Path(folder).resolve(), questions, arguments.mode)} |", flush=True)


def judged(folder: Path, questions: dict[str, bool], mode: Mode) -> str:
    """Ask all questions of one folder, and return its row."""
    scores, counts = dict[bool, list[float]]({True: [], False: []}), Counter[tuple[bool, str]]()
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / ".kbhub.json").write_text(json.dumps({"bases": {"docs": str(folder)}, "repos": {"*": ["docs"]}}))
        hub = Hub(HubOptions(cwd=top, home=top, env=environment(top, top)))
        sync(hub)
        for question, answered in questions.items():
            found = search(hub, Query(text=question, mode=mode))
            scores[answered].append(found.hits[0].score if found.hits else 0.0)
            counts[answered, found.verdict or ""] += 1
            answer = ask(hub, question)
            counts[answered, f"{answer.outcome} {NEAREST_TEXT in answer.text}"] += 1
    both = [np.array(scores[answered]) for answered, _ in CASES]
    auc = area_under_curve(*both) if all(map(len, both)) else float("nan")
    shares = [
        f"{counts[answered, verdict]} of {len(scores[answered])}"
        for answered, _ in CASES
        for verdict in ("strong", "none")
    ]
    asked = [
        f"{case} {counts[answered, 'written False']} + {counts[answered, 'written True']}" for answered, case in CASES
    ]
    return " | ".join((str(len(questions)), f"{auc:.3f}", *shares, ", ".join(asked)))


if __name__ == "__main__":
    main()
