"""Which of two memories comes first, where the later one corrects the other or is about something else.

`python benchmarks/memory_pairs.py [--misses]`. Made-up facts of software projects, two of a kind (`memory_pairs.jsonl`):
in 40 pairs the newer one makes the older one outdated, mostly in other words; in 40 both hold, mostly in parallel
sentences, and the question asks for the older one. All are in one folder.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

from bench.common import parser
from corrections import DAYS, FIRST, NOW, opened
from kbhub.memory.changes import remember
from kbhub.types import Query

PAIRS = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text("utf-8").splitlines()]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--misses", action="store_true", help="also print the questions that another memory answers")
    options = arguments.parse_args()
    counts, ids, now = Counter[str](), dict[str, str](), [FIRST]
    with tempfile.TemporaryDirectory() as folder:
        hub = opened(Path(folder).resolve(), now)
        for age, start in (("older", FIRST), ("newer", FIRST + DAYS)):
            for number, pair in enumerate(PAIRS):
                now[0] = start + timedelta(minutes=number)
                memory = remember(hub, pair[age]).memory
                ids[pair[age]] = memory.id
                counts[f"{pair['kind']}: named by remember"] += ids[pair["older"]] in memory.may_supersede
        now[0] = NOW
        for pair in PAIRS:
            hits = hub.search(Query(text=pair["question"], limit=10)).hits
            older, newer = ids[pair["older"]], ids[pair["newer"]]
            wanted = newer if pair["kind"] == "correction" else older
            found = bool(hits) and wanted in hits[0].path
            counts[f"{pair['kind']}: wanted one first"] += found
            counts[f"{pair['kind']}: older one marked"] += any(hit.outdated for hit in hits if older in hit.path)
            if options.misses and not found:
                print(f"  {pair['question']}")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count} of {sum(pair['kind'] == name.partition(':')[0] for pair in PAIRS)}")


if __name__ == "__main__":
    main()
