"""Is a documentation in several languages answered in that of the question, and each page named once?

    python benchmarks/translations.py FOLDER [LANGUAGE…]

FOLDER has a folder of Markdown per language. The queries are headings of pages that all the languages have, drawn at
random with a fixed seed. Counted are queries whose first hit is in their language, those whose first hit is the page,
and, of the first five hits of each, those in another language and those of a page that a hit above has already.
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

_HEADING = re.compile(r"^##+ (.{8,70}?)(?: *\{[^}]*\})* *$", re.MULTILINE)


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("folder", type=Path)
    reading.add_argument("languages", nargs="*", default=["en", "de", "fr", "es", "pt", "ru", "ja", "zh"])
    reading.add_argument("--queries", type=int, default=60, help="of each language")
    arguments = reading.parse_args()
    folder = arguments.folder.resolve()
    pages = [{path.relative_to(folder / one) for path in (folder / one).rglob("*.md")} for one in arguments.languages]
    print(
        "| language | queries | in the language | the page | others of five | again of five |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / ".kbhub.json").write_text(json.dumps({"bases": {"docs": str(folder)}, "repos": {"*": ["docs"]}}))
        hub = Hub(HubOptions(cwd=top, home=top, env=environment(top, top)))
        hub.sync()
        for language in arguments.languages:
            print(counts(hub, folder / language, language, sorted(set.intersection(*pages)), arguments.queries))


def counts(hub: Hub, folder: Path, language: str, pages: list[Path], wanted: int) -> str:
    chosen, queries = random.Random(5), list[tuple[str, str]]()
    for page in pages:
        if headings := _HEADING.findall((folder / page).read_text("utf-8")):
            queries.append((page.as_posix(), chosen.choice(headings)))
    queries = chosen.sample(queries, min(wanted, len(queries)))
    spoken = right = others = again = 0
    for page, heading in queries:
        found = [hit.path.partition("/") for hit in hub.search(Query(text=heading, limit=5)).hits]
        spoken += bool(found) and found[0][0] == language
        right += bool(found) and found[0][2] == page
        others += sum(one[0] != language for one in found)
        again += len(found) - len({one[2] for one in found})
    return f"| {language} | {len(queries)} | {spoken} | {right} | {others} | {again} |"


if __name__ == "__main__":
    main()
