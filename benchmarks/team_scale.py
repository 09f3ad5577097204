"""A large base in PostgreSQL: `python benchmarks/team_scale.py VAULT… --chunks N… --work DIR`.

The vaults are published once. Copies of their rows are then made by the server itself, under other paths and ids, until
the base has so many chunks, and fresh processes search it with the default deadline. Publishing takes the same time per
chunk at any size (`team.py speed`), so its rate is that of the vaults. Each term is in the same share of the chunks at
any size, which is more than in a real base of that size: postings are an upper bound.
"""

# ruff: noqa: E402 - before numpy is imported

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kbhub.workspace.child_processes import be_frugal, serve_frugally

be_frugal(os.environ)  # as kbhub's own processes do, before numpy is imported

import psycopg

from bench.common import environment, load, parser, read_json, report_step, unpack
from bench.figures import Series, cpu_seconds
from bench.processes import memory_of
from kbhub.extensions.team import reader
from kbhub.extensions.team.publish import publish
from kbhub.hub import Hub, HubOptions
from kbhub.search.search import search
from kbhub.types import Mode, Query
from team import QUESTIONS, Stand

MIX = 0x1E3779B97F4A7C15
"""Makes other keys of vectors of those of a copy."""

COPIED = {
    "document": "%(base)s, id + %(documents)s, %(copy)s || '/' || path, md5(docid || %(copy)s), size, mtime_ns, hash, "
    "title, kind, tags, aliases, front_matter, dated, committed, problem",
    "file": "%(base)s, document_id + %(documents)s, content",
    "chunk": "%(base)s, id + %(chunks)s, document_id + %(documents)s, headings, start_line, end_line, prose, text",
    "extent": "%(base)s, chunk_id + %(chunks)s, document_id + %(documents)s, tokens",
    "signature": "%(base)s, chunk_id + %(chunks)s, signature",
    "vector": "%(base)s, chunk_id + %(chunks)s, key # %(mix)s, embedding",
    "property": "%(base)s, document_id + %(documents)s, place, key, value, number",
    "link": "%(base)s, document_id + %(documents)s, place, target, fragment, text, line, kind",
    "posting": "%(base)s, term, first + %(chunks)s, last + %(chunks)s, size, chunks, counts, places",
}
"""Table → what a copied row of it is."""

FIRST = {"posting": "first", "document": "id", "chunk": "id", "file": "document_id", "property": "document_id",
         "link": "document_id"}  # fmt: skip
"""Table → the column that says which copy a row is of; elsewhere `chunk_id`."""


def main() -> None:
    """Publish, copy and search, at each size."""
    reading = parser(__doc__)
    reading.add_argument("vaults", nargs="*", type=Path)
    reading.add_argument("--work", type=Path, required=True)
    reading.add_argument("--chunks", nargs="+", type=int, default=[1_000_000])
    reading.add_argument("--version", type=int, default=18, help="of PostgreSQL")
    reading.add_argument("--child", nargs=2, help="for the processes that this starts")
    arguments = reading.parse_args()
    if arguments.child:
        home, read = arguments.child
        if read == "whole":
            reader.CHUNKS_AT_ONCE = sys.maxsize
        print(json.dumps(asked(Path(home))))
        return
    folder = Path(tempfile.mkdtemp(prefix="kbhub-team-"))
    stand = Stand(folder, arguments.version)
    try:
        measure(stand, arguments.vaults, arguments.chunks, arguments.work / "team_scale.json")
    finally:
        stand.postgres.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def measure(stand: Stand, vaults: list[Path], sizes: list[int], results: Path) -> None:
    """Publish the vaults and search them and ever more copies of them."""
    notes = stand.folder / "notes"
    for vault in vaults:
        shutil.copytree(unpack(vault, stand.folder), notes / vault.name.split(".")[0])
    database = stand.database()
    began, cpu = time.monotonic(), cpu_seconds()
    hub = stand.hub({"notes": str(notes)})
    (base,) = hub.select(["notes"])
    report = publish(base, stand.server(database), "notes", hub.embedder(), hub.limits())
    published = {"chunks": report.chunks, "wall": time.monotonic() - began, "cpu": cpu_seconds() - cpu}
    report_step(f"published {report.chunks:,} chunks in {published['wall']:.0f} s")
    have = 1
    for size in sizes:
        copies = max(have, -(-size // report.chunks))
        began = time.monotonic()
        enlarge(stand, database, have, copies)
        have = copies
        report_step(f"{have * report.chunks:,} chunks: copied in {time.monotonic() - began:.0f} s")
        known = read_json(results)
        known[str(size)] = found = {
            "chunks": have * report.chunks,
            "published": published,
            "bytes": stand.run(f"SELECT pg_database_size('{database}')")[0][0],
            **{f"deadline of {seconds} s, columns {read}": _search(stand, database, seconds, read)
               for read in ("in parts", "whole") for seconds in (2, 60)},
            "load": load(),
        }  # fmt: skip
        results.write_text(json.dumps(known, indent=1), "utf-8")
        print(size, json.dumps(found, indent=1))


def enlarge(stand: Stand, database: str, have: int, copies: int) -> None:
    """Copy what was published until there are so many copies, with the first."""
    with psycopg.connect(stand.url(database)) as connection:
        for copy in range(have, copies):
            _copy(connection, copy)
            connection.commit()
        connection.execute("UPDATE kbhub.term SET chunks = (chunks / %s) * %s", (have, copies))
    with psycopg.connect(stand.url(database), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _copy(connection: psycopg.Connection[Any], copy: int) -> None:
    """Copy the rows of what was published."""
    ((base, chunks, documents),) = connection.execute(
        "SELECT b.base_id, (SELECT value::bigint FROM kbhub.meta m WHERE m.base_id = b.base_id AND key = 'next_chunk'), "
        "(SELECT value::integer FROM kbhub.meta m WHERE m.base_id = b.base_id AND key = 'next_document') "
        "FROM kbhub.base b WHERE name = 'notes'"
    ).fetchall()
    values = {"base": base, "copy": str(copy), "mix": copy * MIX % 2**62}
    for table, fields in COPIED.items():
        of_documents = table in FIRST and table not in ("posting", "chunk")
        column, end = FIRST.get(table, "chunk_id"), documents if of_documents else chunks
        names = ", ".join(
            name for (name,) in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'kbhub' AND table_name = %s "
                "AND column_name <> 'author' ORDER BY ordinal_position", (table,)
            )
        )  # fmt: skip
        connection.execute(
            f"INSERT INTO kbhub.{table}({names}) SELECT {fields} FROM kbhub.{table} "
            f"WHERE base_id = %(base)s AND {column} < %(end)s",
            {**values, "documents": copy * documents, "chunks": copy * chunks, "end": end},
        )


def _search(stand: Stand, database: str, seconds: float, read: str = "in parts") -> dict[str, Any]:
    home = settled(stand, database, seconds)
    done = subprocess.run(
        [sys.executable, __file__, "--work", str(home), "--child", str(home), read],
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-2000:]}


def settled(stand: Stand, database: str, seconds: float) -> Path:
    """Make the home of a user who has the base; give its folder."""
    home = Path(tempfile.mkdtemp(dir=stand.folder))
    entry = {"notes": {"engine": stand.url(database), "timeout": seconds}}
    settings = {"bases": entry, "repos": {"*": ["notes"]}, "log": {"queries": False}, "search": {"secondLook": False}}
    (home / "kbhub.json").write_text(json.dumps(settings))
    return home


def asked(home: Path) -> dict[str, Any]:
    """Search in this process: the first time by words, then with meaning, then all questions three times."""
    serve_frugally()
    hub = Hub(HubOptions(env=environment(home, home), home=home, cwd=home, config=home / "kbhub.json"))
    series = {name: Series() for name in ("first, by words", "first, with meaning", "later", "keyword", "semantic")}
    for one in series.values():
        one.round()
    skipped: list[str] = []

    def ask(name: str, text: str, mode: Mode) -> None:
        result = series[name].time(lambda: search(hub, Query(text=text, mode=mode)))
        skipped.extend(one.reason for one in result.skipped)

    ask("first, by words", QUESTIONS[0], "keyword")
    ask("first, with meaning", QUESTIONS[0], "hybrid")
    rss = memory_of(os.getpid())["rss"]
    modes: dict[str, Mode] = {"later": "hybrid", "keyword": "keyword", "semantic": "semantic"}
    for name, mode in modes.items():
        for text in QUESTIONS[1:]:
            ask(name, text, mode)
    return {"skipped": skipped[:3], "times skipped": len(skipped), "rss_once": rss, "rss": memory_of(os.getpid())["rss"],
            **{name: one.summary() for name, one in series.items()}}  # fmt: skip


if __name__ == "__main__":
    main()
