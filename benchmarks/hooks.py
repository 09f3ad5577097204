"""Replay 600 events of coding agents through `kbhub hook`: `python benchmarks/hooks.py VAULT VAULT VAULT`.

Each VAULT, a folder of Markdown, is the knowledge of a repository that holds the source of an installed package. 200
memories say what docstrings of that source say, about their file or function. Half of the events have a cue: a tool
that works on such a file or function, a prompt that names what a memory or a document is about. The others must stay
silent: files and functions that nobody noted anything about, prompts about other things (`eval/msmarco` and chatter),
and cues that the session has been told. Every event is a process of its own, as clients run it, answered by the daemon.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hook_events import CLIENTS, EDITS, READS, claude_log, sent
from kbhub.api import Hub
from kbhub.hooks.sessions import let_speak
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
from kbhub.server.daemon.launch import launch, stop
from kbhub.server.daemon.protocol import DaemonFolder

PACKAGES = ("anyio", "httpx", "pydantic")
"""Installed packages whose source is the code of a repository."""

MEMORIES, EVENTS, COMPACTIONS = 200, 600, 25

PER_FILE = 3
"""Memories about a file at most: as many as one event delivers."""

FRAMES = (
    "{}",
    "What do we have on {}?",
    "I have to work on this: {}. What do we know about it?",
    "How is {} meant to work, and what speaks against it?",
)
"""How a prompt names what a document is about."""

CHATTER = (
    "run the tests again please",
    "looks good, commit this with a short message",
    "rename the variable and run the linter",
    "now do the same for the other file",
    "why is this test failing?",
    "can you explain what this function does",
    "undo the last change",
    "write a test for it",
    "make it faster",
    "what is left to do?",
)


@dataclass
class Noted:
    """Something a docstring says."""

    file: str
    name: str
    line: str
    """The line of code that defines it."""
    text: str
    ref: str = ""
    symbol: bool = True


@dataclass
class Repository:
    """A project with knowledge, code and memories."""

    root: Path
    hub: Hub
    noted: list[Noted]
    silent_files: list[str]
    titles: list[tuple[str, str]]
    """Titles of documents that are like no other, with the documents."""


@dataclass
class Case:
    """An event, and what must be said about it."""

    kind: str
    repository: Repository
    name: str
    more: dict
    wanted: str = ""
    unwanted: str = ""
    """What must not be said; empty for anything."""
    before: dict | None = None
    """An event of the same session that comes before it."""


def main() -> None:
    """Print what was delivered, what was said in vain, and how long a hook took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("vaults", nargs=3, type=Path)
    parser.add_argument("--questions", type=Path, required=True, help="queries.jsonl about other things")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        env = environment(Path(folder))
        made = [
            repository(Path(folder) / package, package, vault, env, dice)
            for package, vault in zip(PACKAGES, given.vaults, strict=True)
        ]
        others = [json.loads(line)["text"] for line in given.questions.read_text().splitlines()]
        cases = [*cued(made, dice), *silent(made, others, dice)]
        dice.shuffle(cases)
        daemon = DaemonFolder(Path(env["KBHUB_DATA_DIR"]))
        launch(daemon, {"ends": True}, env)
        try:
            measure(cases, env)
        finally:
            stop(daemon)
        compact(made[0], env)


def measure(cases: list[Case], env: dict[str, str]) -> None:
    """Run the events and print what came."""
    for one in cases[0].repository, *(case.repository for case in cases[:30]):  # the daemon opens the indexes
        hook(Case("", one, "prompt", {"prompt": "open the index"}), "warm", 0, env)
    times, tokens = {}, []
    right, alarms, total = Counter(), Counter(), Counter()
    for number, case in enumerate(cases):
        if case.before:
            hook(Case("", case.repository, case.name, case.before), f"s{number}", number, env)
        text, seconds = hook(case, f"s{number}", number, env)
        times.setdefault(case.kind, []).append(1000 * seconds)
        total[case.kind] += 1
        if text:
            tokens.append(len(text.encode()) / 3.2)
        if case.wanted:
            right[case.kind] += (done := f'refs="{case.wanted}' in text)
            if not done:
                print(f"  missed {case.wanted}: {case.more}\n{text}")
        else:
            alarms[case.kind] += f'refs="{case.unwanted}' in text
    for kind in sorted(total):
        done = f"{right[kind]} delivered" if kind in right else f"{alarms[kind]} said in vain"
        print(f"{kind:<40} {total[kind]:>4}  {done}, p50 {statistics.median(times[kind]):.1f} ms")
    cues = sum(total[kind] for kind in right)
    print(f"delivered {sum(right.values())} of {cues} ({sum(right.values()) / cues:.3f})")
    quiet = sum(total.values()) - cues
    print(f"false alarms {sum(alarms.values())} of {quiet} ({sum(alarms.values()) / quiet:.3f})")
    cuts = statistics.quantiles([one for kind in times.values() for one in kind], n=100)
    print(
        f"a hook took p50 {cuts[49]:.1f}, p95 {cuts[94]:.1f}, p99 {cuts[98]:.1f} ms; median {statistics.median(tokens):.0f} tokens"
    )
    floor = []
    for _ in range(40):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        floor.append(1000 * (time.perf_counter() - began))
    print(f"python -c pass took p50 {statistics.median(floor):.1f} ms")


def compact(repository: Repository, env: dict[str, str]) -> None:
    """Print what the hook of a compaction takes, beside `python -c pass` in turns; the session's log has 7 MB."""
    turns = [
        turn for n in range(3_000) for turn in (("user", f"We use queue {n}. {'word ' * 300}"), ("Bash", f"make t{n}"))
    ]
    log = claude_log(repository.root.parent / "session.jsonl", *turns, cwd=repository.root)
    case, times, floor = Case("", repository, "compact", {"transcript": log}), [], []
    for number in range(COMPACTIONS):
        times.append(1000 * hook(case, f"c{number}", 0, env)[1])
        time.sleep(2)  # another process reads the log meanwhile
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        floor.append(1000 * (time.perf_counter() - began))
    print(
        f"a compaction's hook took p50 {statistics.median(times):.1f} ms, python -c pass {statistics.median(floor):.1f} ms"
    )


def hook(case: Case, session: str, number: int, env: dict[str, str]) -> tuple[str, float]:
    """Run `kbhub hook` as a client does; give what the model is told, and the seconds."""
    client = CLIENTS[number % len(CLIENTS)]
    more = dict(case.more)
    if "edit" in more:
        more = {"tool": EDITS[client](*more["edit"])}
    elif "read" in more:
        more = {"tool": READS[client](more["read"])}
    data = sent(client, case.name, case.repository.root, session=session, **more)
    command = [str(Path(sys.executable).with_name("kbhub")), "hook", case.name, "--client", client]
    began = time.perf_counter()
    done = subprocess.run(command, input=data, capture_output=True, env=env, cwd=case.repository.root, check=True)
    seconds = time.perf_counter() - began
    return (json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""), seconds


def cued(made: list[Repository], dice: random.Random) -> Iterator[Case]:
    """Yield the events that have a cue, half of all."""
    for number in range(EVENTS // 2):
        one = made[number % len(made)]
        functions = [noted for noted in one.noted if noted.symbol]
        files = [noted for noted in one.noted if not noted.symbol]
        kind = number // len(made) % 4
        if kind == 0:
            noted = dice.choice(functions)
            yield Case("edit of a function", one, "tool", {"edit": (noted.file, noted.line)}, noted.ref)
        elif kind == 1:
            noted = dice.choice(files)
            yield Case("reading of a file", one, "tool", {"read": noted.file}, noted.ref)
        elif kind == 2:
            noted = dice.choice(one.noted)
            yield Case("prompt that names a memory's subject", one, "prompt", {"prompt": asked(noted)}, noted.ref)
        else:
            title, path = dice.choice(one.titles)
            prompt = dice.choice(FRAMES).format(title)
            yield Case("prompt that names a document's subject", one, "prompt", {"prompt": prompt}, path)


def asked(noted: Noted) -> str:
    """Ask for a memory by what it is about and half of its words, as somebody who remembers some of it would."""
    words = re.findall(r"[\w.]+", noted.text.partition(": ")[2])
    return f"What was it about {noted.name} again, something with {' '.join(words[: max(4, len(words) // 2)])}?"


def silent(made: list[Repository], others: list[str], dice: random.Random) -> Iterator[Case]:
    """Yield the events about which there is nothing to say, the other half."""
    for number in range(EVENTS // 2):
        one = made[number % len(made)]
        kind = number // len(made) % 6
        noted = dice.choice([noted for noted in one.noted if noted.symbol])
        if kind in (0, 1):
            how = {"read": dice.choice(one.silent_files)} if kind else {"edit": (dice.choice(one.silent_files), "x")}
            yield Case("file without notes", one, "tool", how)
        elif kind == 2:
            more = {"edit": (noted.file, "value = compute(other)")}
            alone = [other for other in one.noted if other.file == noted.file]
            if all(other.symbol for other in alone):
                yield Case("another function of a file", one, "tool", more)
            else:
                yield Case("file without notes", one, "tool", {"read": dice.choice(one.silent_files)})
        elif kind == 3:
            yield Case("prompt about something else", one, "prompt", {"prompt": dice.choice(others)})
        elif kind == 4:
            yield Case("chatter", one, "prompt", {"prompt": dice.choice(CHATTER)})
        else:
            edit = {"edit": (noted.file, noted.line)}
            yield Case("cue that was told before", one, "tool", edit, unwanted=noted.ref, before=edit)


def repository(root: Path, package: str, vault: Path, env: dict[str, str], dice: random.Random) -> Repository:
    """Make a repository with the source of a package, a vault as its knowledge, and memories; it may speak."""
    source = str(resources.files(package))
    shutil.copytree(source, root / "src" / package, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copytree(vault, root / "knowledge")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(root)]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run([*git, "add", "src"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    hub = Hub(HubOptions(cwd=root, home=Path(env["HOME"]), env=env))
    hub.sync()
    let_speak(hub)
    found = [noted for file in sorted((root / "src").rglob("*.py")) for noted in docstrings(root, file)]
    dice.shuffle(found)
    by_file: dict[str, list[Noted]] = {}
    for noted in found:
        by_file.setdefault(noted.file, []).append(noted)
    files = sorted(by_file)
    dice.shuffle(files)
    with_notes = files[: 2 * len(files) // 3]
    chosen = [noted for file in with_notes for noted in by_file[file][:PER_FILE]][: MEMORIES // len(PACKAGES) + 1]
    for number, noted in enumerate(chosen):
        noted.symbol = number % 3 > 0
        about = f"{noted.file}::{noted.name}" if noted.symbol else noted.file
        noted.ref = remember(hub, noted.text, about=[about]).memory.ref
    earlier = time.time() - 3600  # as memories are that were not written this second
    for file in Path(env["KBHUB_DATA_DIR"]).rglob("*.md"):
        os.utime(file, (earlier, earlier))
    hub.sync()
    told = {noted.file for noted in chosen}
    return Repository(
        root, hub, chosen, [str(path.relative_to(root)) for path in sorted((root / "src").rglob("*.py"))
                            if str(path.relative_to(root)) not in told], titles(vault)
    )  # fmt: skip


def docstrings(root: Path, file: Path) -> Iterator[Noted]:
    """Yield what the docstrings of a module's functions and classes say, those with a sentence of eight words or more."""
    source = file.read_text("utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        sentence = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
        if 8 <= len(sentence.split()) <= 40 and sum(f"{node.name}(" in line for line in lines) == 1:
            path = str(file.relative_to(root))
            yield Noted(path, node.name, lines[node.lineno - 1].strip(), f"{node.name}: {sentence}")


def titles(vault: Path) -> list[tuple[str, str]]:
    """Give titles of three words or more that one document alone has, with its path: as written, or as the file is named."""
    found: dict[str, list[str]] = {}
    for path in sorted(vault.rglob("*.md")):
        text = path.read_text("utf-8", "replace")
        match = re.match(r"---\n(?:.*\n)*?title: *(.+)\n|\s*# (.+)\n", text)
        title = (match[1] or match[2]).strip().strip("\"'") if match else re.sub(r"^\d+-|-", " ", path.stem).strip()
        if len(re.findall(r"\w{4,}", title)) >= 3:
            found.setdefault(title, []).append(path.relative_to(vault).as_posix())
    return [(title, paths[0]) for title, paths in found.items() if len(paths) == 1]


def environment(folder: Path) -> dict[str, str]:
    """Give the variables of a user with an empty home."""
    home = folder / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "KBHUB_CACHE_DIR": str(folder / "cache"),
        "KBHUB_DATA_DIR": str(folder / "data"),
        "KBHUB_SERVE__END_MINUTES": "10",
    }


if __name__ == "__main__":
    main()
