"""Is a documentation in several versions answered from the newest, and from the one that a query names?

    python benchmarks/versions.py FOLDER --newest v3.8 --other v3.4

FOLDER has a folder of Markdown per version. The queries are titles of pages of the newest version, with one of their
headings, drawn at random with a fixed seed. Counted are queries whose first hit is of the newest version, those whose
first hit is the page in any version, and those of which the first hit is of another version that is named behind them;
and, of the first five hits of each, those of a page that a hit above has already.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path

from bench.common import environment, parser
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.types import Query

LEAST_CHARACTERS = 1_500
"""Of a page that is asked for."""

_TITLE, _HEADING = re.compile(r"^title: *\"?(.*?)\"?$", re.MULTILINE), re.compile(r"^##+ (.{8,60})$", re.MULTILINE)


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("folder", type=Path)
    reading.add_argument("--newest", required=True, help="folder of the newest version")
    reading.add_argument("--other", required=True, help="folder of another")
    reading.add_argument("--queries", type=int, default=40)
    arguments = reading.parse_args()
    folder = arguments.folder.resolve()
    chosen, queries = random.Random(3), list[tuple[str, str]]()
    for path in sorted((folder / arguments.newest).rglob("*.md")):
        text = path.read_text("utf-8")
        title, headings = _TITLE.search(text), _HEADING.findall(text)
        if title and headings and len(text) > LEAST_CHARACTERS:
            page = path.relative_to(folder / arguments.newest).as_posix()
            queries.append((page, f"{title[1]} {chosen.choice(headings)}"))
    queries = chosen.sample(queries, min(arguments.queries, len(queries)))
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / ".kbhub.json").write_text(json.dumps({"bases": {"docs": str(folder)}, "repos": {"*": ["docs"]}}))
        hub = Hub(HubOptions(cwd=top, home=top, env=environment(top, top)))
        hub.sync()
        first, again = list[tuple[str, str, str]](), 0
        for page, query in queries:
            found, named = (_paths(hub, text) for text in (query, f"{query} in {arguments.other}"))
            first.append((page, found[0], named[0]))
            again += len(found) - len({path.partition("/")[2] for path in found})
    print(
        "| queries | newest version first | page first | named version first | again of five |\n|---|---|---|---|---|"
    )
    counts = (
        sum(path.startswith(f"{arguments.newest}/") for _, path, _ in first),
        sum(path.endswith(f"/{page}") for page, path, _ in first),
        sum(path.startswith(f"{arguments.other}/") for _, _, path in first),
        again,
    )
    print(f"| {len(first)} | {' | '.join(map(str, counts))} |")


def _paths(hub: Hub, query: str) -> list[str]:
    return [hit.path for hit in hub.search(Query(text=query, limit=5)).hits] or [""]


if __name__ == "__main__":
    main()
