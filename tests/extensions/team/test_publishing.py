"""Publishing, pulling and removing: all or nothing, one at a time, byte for byte."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psycopg
import pytest

from corpus import sentences
from documents.secret_corpus import secrets
from kbhub.errors import EngineUnavailable, IndexUnavailable
from kbhub.extensions.team import bases as team
from kbhub.extensions.team import writer
from kbhub.extensions.team.publish import Pulled, publish, pull
from kbhub.extensions.team.schema import TABLES
from kbhub.search.search import search

EXAMPLE = Path(__file__).parents[3] / "examples" / "team-hub"
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "team.md"

KILLS = 8
"""As many as a test has time for; `benchmarks/team.py --kills` takes 100."""

PATIENCE = 60.0
"""Seconds to wait for what another process does."""


def fill(twin, count: int = 30) -> None:
    """Write some notes."""
    for path, text in sentences(count).items():
        twin.write(path, f"# {path}\n\n{text}\n")


def pulled(twin, target: Path) -> Pulled:
    """Write the files of the shared base into a folder."""
    return pull(twin.database.server(), "notes", target)


def refs(hub, text: str) -> list[str]:
    """Refs of what is found."""
    return [hit.ref for hit in search(hub, text).hits]


@pytest.mark.parametrize("count", [3, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_document_with_a_credential_stays_at_home(twin, count):
    """Read here or by workers: it is named with its line, the others are published, and a person may say otherwise."""
    fill(twin, count)
    _, token = next((name, text) for name, text in secrets(400, seed=2) if name == "stripe")
    twin.write("deploy.md", f"# Deploy\n\nThe xylophone uses\n{token}\n")
    (problem,) = twin.publish().failed
    assert problem.subject == "deploy.md"
    assert "Stripe key" in problem.message
    assert "--allow-secret" in problem.message
    assert "notes@deploy.md" not in refs(twin.shared(), "xylophone")
    assert twin.publish(allow_secret=True).failed == ()
    assert refs(twin.shared(), "xylophone")[0] == "notes@deploy.md"


def test_only_what_changed_travels(twin):
    """A dry or second run writes nothing, a changed file is written, a renamed one keeps its vectors."""
    fill(twin)
    assert twin.publish(dry_run=True).added == 30
    first, second = twin.publish(), twin.publish()
    twin.write("notes/000.md", "# Changed\n\nStatus: deprecated\n\nAn unheard-of xylophone.\n")
    (twin.folder / "notes/001.md").rename(twin.folder / "moved.md")
    third = twin.publish()
    assert (first.added, first.vectors_made) == (30, first.chunks)
    assert (second.added, second.changed, second.unchanged, second.vectors_made) == (0, 0, 30, 0)
    assert (third.added, third.changed, third.removed, third.vectors_made) == (1, 1, 1, 1)
    twin.database.run("DELETE FROM kbhub.property; DELETE FROM kbhub.meta WHERE key = 'written status'")  # as once
    assert (twin.publish().unchanged, search(twin.shared(), "xylophone").hits[0].outdated) == (30, "deprecated")


def test_a_second_publisher_is_told_who_the_first_is_and_readers_see_the_base_as_it_was_until_all_is_done(
    twin, monkeypatch
):
    monkeypatch.setattr(team, "PATIENCE_MS", 100)
    fill(twin)
    twin.publish()
    with team.changing(twin.database.server(), "notes", "kbhub team publish from ada@laptop"):
        with pytest.raises(EngineUnavailable, match=r"'notes' is being written by kbhub team publish from ada@laptop"):
            twin.publish()
        assert refs(twin.shared(), "deploy")

    hub, seen = twin.shared(), []
    for path in list(twin.folder.rglob("*.md")):
        path.write_text(f"# All different\n\nxylophone {path.stem}\n")
    twin.publish(progress=lambda *_: seen.append((refs(hub, "xylophone"), len(refs(hub, "deploy")))))
    assert seen
    assert all(found == [] and count for found, count in seen)
    assert len(refs(hub, "xylophone")) == 5


def test_the_files_come_back_byte_for_byte(twin, tmp_path):
    """With line ends, byte order marks and bytes that are not text; what is there is left alone."""
    twin.write("crlf.md", b"# A\r\n\r\nb\r\n")
    twin.write("bom.md", b"\xef\xbb\xbf# A\n")
    twin.write("sub/raw.md", b"# A\n\n\xff\xfe\0\n")
    twin.publish()
    target = tmp_path / "copy"

    first, again = (pulled(twin, target) for _ in range(2))

    assert (first.written, again.written, again.same) == (3, 0, 3)
    for path in ("crlf.md", "bom.md", "sub/raw.md"):
        assert (target / path).read_bytes() == (twin.folder / path).read_bytes()
    (target / "bom.md").write_text("mine")
    third = pulled(twin, target)
    assert third.kept == ("bom.md",)
    assert (target / "bom.md").read_text() == "mine"


HARMFUL = (
    *(".git/hooks/post-checkout", ".claude/settings.json", "docs/.obsidian/app.md", ".bashrc.md"),
    *("Makefile", "package.json", "run.sh", "-rf", "--checkpoint-action=exec=sh x.md", "-v/a.md"),
    *("$HOME.md", "$(id).md", "`id`.md", "%PATH%.md", "a/${HOME}/b.md", "~/a.md"),
    *("end.md ", "end /a.md", "dot./a.md", " a.md", "nbsp\u00a0/a.md"),
    *("evil\u202edm.md", "a\u200e.md", "bell\x07.md", "line\nend.md", "esc\x1b[2J.md"),
    *("con.md", "NUL/a.md", "git~1/config.md", "../../out.md", "/tmp/out.md", "a//b.md", "a/./b.md"),
    *("n" * 300 + ".md", "/".join(["deep"] * 300) + "/a.md", "blocked/a.md", "link/out.md", "outside.md"),
)


def test_a_name_that_could_do_harm_is_skipped_and_the_rest_is_pulled(twin, kbhub, tmp_path):
    """Wherever it is in the order, and whatever is in the folder already: the message and the exit code say so."""
    for number in range(len(HARMFUL)):
        twin.write(f"{number}.md", "# Planted\n")
    good = ("Who is who?.md", "US$9, 5% to 6%.md", "a/b/c.md", "zoo.txt", "\u0645\u0631\u062d\u0628\u0627.md")
    for path in good:
        twin.write(path, "# Good\n")
    hub = twin.hub({"notes": {"knowledge": str(twin.folder), "include": ["*.txt"]}})
    publish(hub.select(["notes"])[0], twin.database.server(), "notes", None, hub.limits())
    for number, path in enumerate(HARMFUL):
        twin.database.run("UPDATE kbhub.document SET path = %s WHERE path = %s", path, f"{number}.md")
    around = tmp_path / "around"
    target, outside = around / "copy", around / "mine.md"
    target.mkdir(parents=True)
    outside.write_text("mine")
    (target / "blocked").write_text("mine")
    (target / "link").symlink_to(around)
    for draft in (".c.md.kbhub", ".outside.md.kbhub", "outside.md"):
        (target / draft).symlink_to(outside)

    result = kbhub("team", "pull", twin.database.url(), "notes", str(target), code=1)
    again = kbhub("team", "pull", twin.database.url(), "notes", str(target), "--json", code=1).json

    assert f"{len(good)} files written to {target}, 0 already there, {len(HARMFUL) - 1} skipped" in result.out
    assert (again["written"], again["same"], again["kept"]) == (0, len(good), ["outside.md"])
    assert {one["subject"] for one in again["refused"]} == {*HARMFUL} - {"outside.md"}
    assert result.err.count(": skipped, because ") == len(HARMFUL) - 1
    assert "-rf: skipped, because programs take '-rf' for an option." in result.err
    assert not {"\u202e", "\u200e", "\x07", "\x1b"} & set(result.err)
    mine = ("blocked", ".c.md.kbhub", ".outside.md.kbhub", "outside.md", "../mine.md")
    files = {path for path in around.rglob("*") if path.is_file()}
    assert files == {Path(os.path.normpath(target / path)) for path in (*good, *mine)}
    assert outside.read_text() == "mine"


def test_what_a_database_cannot_hold_is_said(twin):
    """A path that is too long for a key is left out; the rest is published."""
    twin.write("good.md", "# Good\n\nxylophone\n")
    deep = "/".join(["n" * 200] * 12)
    twin.write(f"{deep}/long.md", "# Long\n")

    for added, unchanged in ((1, 0), (0, 1)):
        report = twin.publish()
        assert (report.added, report.unchanged) == (added, unchanged)
        assert [problem.subject for problem in report.failed] == [f"{deep}/long.md"]

    hub = twin.shared()
    assert refs(hub, "xylophone") == ["notes@good.md"]
    (base,) = hub.select(["notes"])
    index = hub.index(base)
    with index.snapshot():
        ((path, message),) = index.problems()
    assert path.endswith("long.md")
    assert "2,000 bytes" in message


def test_another_model_makes_all_vectors_anew_and_a_removed_base_is_gone_with_all_rows(twin):
    """Vectors of two models are never mixed; who has another model searches by words and is told so."""
    fill(twin)
    twin.publish()
    twin.database.run("UPDATE kbhub.meta SET value = '\"another\"' WHERE key = 'embedder'")
    result = search(twin.shared(), "deploy")
    assert any("keyword search only, until its vectors are recomputed" in note for note in result.notes)
    report = twin.publish()
    assert report.vectors_made == report.chunks

    assert team.remove(twin.database.server(), "notes") == 30
    for table in ("member", *TABLES):
        assert twin.database.run(f"SELECT count(*) FROM kbhub.{table} WHERE base_id <> 0") == [(0,)], table
    with pytest.raises(IndexUnavailable, match="no base 'notes'"):
        pulled(twin, twin.folder)
    assert twin.publish().added == 30


def found(twin, word: str) -> list[tuple]:
    """The documents whose text has a word, as the database has them."""
    return twin.database.run("SELECT DISTINCT document_id FROM kbhub.chunk WHERE strpos(text, %s) > 0", word)


WRITER = """
import json, sys
from pathlib import Path
from kbhub.hub import Hub, HubOptions
from kbhub.extensions.team.server import Server
from kbhub.extensions.team.publish import publish
folder, url, cache = sys.argv[1:]
hub = Hub(HubOptions(bases={"notes": Path(folder)}, cwd=Path(folder), cache=Path(cache)))
(base,) = hub.select(["notes"])
print("ready", flush=True)
publish(base, Server(url, 20, {}), "notes", hub.embedder(), hub.limits())
print("done", flush=True)
"""


def started(twin, folder) -> subprocess.Popen:
    """Start a publisher in a process of its own."""
    arguments = [sys.executable, "-W", "ignore", "-c", WRITER, str(twin.folder), twin.database.url(), str(folder)]
    environment = {**os.environ, **twin.environment.env}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_a_publisher_killed_at_any_moment_leaves_what_was(twin, tmp_path):
    fill(twin, 200)
    twin.publish()
    before = refs(twin.shared(), "deploy release")
    for path in twin.folder.rglob("*.md"):
        path.write_text(path.read_text() + "\nxylophone\n")
    took = time.monotonic()
    with started(twin, tmp_path) as whole:
        whole.wait(PATIENCE)
    took = time.monotonic() - took
    assert len(refs(twin.shared(), "xylophone")) == 5
    for number in range(KILLS):
        word = f"word{number}x"
        for path in twin.folder.rglob("*.md"):
            path.write_text(path.read_text() + f"\n{word}\n")
        with started(twin, tmp_path) as process:
            process.stdout.readline()
            threading.Event().wait(took * number / KILLS / 2)
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
        assert len(found(twin, word)) in (0, 200)

    report = twin.publish()

    assert report.unchanged + report.changed == 200
    assert before
    assert len(found(twin, word)) == 200


def test_a_cut_connection_undoes_the_run(twin, monkeypatch):
    fill(twin)
    twin.publish()
    monkeypatch.setattr(writer, "CHUNKS_AT_ONCE", 0)  # Writes each document alone.
    for path in twin.folder.rglob("*.md"):
        path.write_text("# New\n\nxylophone\n")

    def cut(*_) -> None:
        with psycopg.connect(twin.database.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'kbhub team pub%'"
            )

    with pytest.raises(EngineUnavailable, match=r"shut down|cut|terminat"):
        twin.publish(progress=cut)

    assert refs(twin.shared(), "xylophone") == []
    assert twin.publish().changed == 30


def test_the_command_line_publishes_lists_and_pulls(twin, kbhub, tmp_path):
    fill(twin, 3)
    url = twin.database.url()
    twin.environment.configure(bases={"notes": str(twin.folder)}, repos={"*": "notes"})

    done = kbhub("team", "publish", "notes", "--to", url, "--description", "What we know", code=0)
    listed = kbhub("team", "publish", "--status", "--to", url, "--json", code=0).json
    pulled = kbhub("team", "pull", url, "notes", str(tmp_path / "copy"), code=0)
    grants = kbhub("team", "list", url, "--base", "notes", "--json", code=0).json
    removed = kbhub("team", "publish", "notes", "--to", url, "--remove", code=0)

    assert done.out.startswith("notes: 3 added")
    assert [(base["name"], base["documents"], base["description"]) for base in listed["bases"]] == [
        ("notes", 3, "What we know")
    ]
    assert "3 files written" in pulled.out
    assert grants["members"] == [{"role": "postgres", "rights": "admin"}]
    assert "removed" in removed.out
    assert "3 documents" in removed.out


def test_indexing_a_shared_base_says_who_does(twin, kbhub):
    fill(twin, 3)
    twin.publish()
    twin.environment.configure(bases={"notes": {"engine": twin.database.url()}}, repos={"*": "notes"})
    result = kbhub("admin", "index", "notes", code=0)
    assert "notes is a shared base: its publisher syncs it" in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["publish", "notes", "--to", "postgresql://a:secret@kb.example/x"], "contains a password"),
        (["publish", "notes", "--to", "kb.example/x"], "must be a URL such as"),
        (["publish", "--to", "postgresql:///x?host=/nowhere"], "No base given"),
        (["publish", "--status", "--to", "postgresql:///x?host=/nowhere"], "no server listens on that socket"),
        (["publish", "--status", "--to", "postgresql:///x?nothing=1"], "its URL is malformed"),
        (["publish", "--status", "--to", "mysql://a:secret@kb.example/x"], "must be a URL such as"),
        (["pull", "postgresql://[::1/x", "b", "d"], "is not a valid URL"),
        (["bases", "add", "postgresql://h/%FF"], "is not a valid URL"),
        (["team", "init"], "No database given"),
        (["team", "init", "postgresql://127.0.0.1:1/x"], "nothing listens there"),
        (["bases", "add", "postgresql://a:secret@kb.example/x"], "contains a password"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(kbhub, arguments, said):
    result = kbhub(*arguments)
    assert result.code != 0
    assert said in result.err
    assert "secret" not in result.err + result.out
    assert "Traceback" not in result.err


def test_watching_publishes_what_changes(twin):
    fill(twin, 3)
    twin.environment.configure(bases={"notes": str(twin.folder)}, repos={"*": "notes"})
    command = ("-W", "ignore", "-m", "kbhub", "team", "publish", "notes", "--watch", "--to")
    arguments = [sys.executable, *command, twin.database.url()]
    environment = {**os.environ, **twin.environment.env, "HOME": str(twin.environment.home)}
    # A shell that runs the tests in the background has them ignore interrupts, and what they start.
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    options = {"stdout": subprocess.PIPE, "text": True, "cwd": twin.folder, "preexec_fn": interruptible}
    with subprocess.Popen(arguments, env=environment, **options) as process:
        try:
            assert "3 added" in process.stdout.readline()
            hub, until = twin.shared(), time.monotonic() + PATIENCE
            while not refs(hub, "xylophone") and time.monotonic() < until:
                (twin.folder / "new.md").write_text(f"# New\n\nxylophone {time.monotonic()}\n")
                threading.Event().wait(0.5)
            assert refs(hub, "xylophone") == ["notes@new.md"]
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


def test_the_how_to_works_as_written(twin, kbhub):
    """Its blocks one after the other, with this server in place of its own: roles, schema, rights, bases."""
    fill(twin, 3)
    section = HOW_TO.read_text("utf-8").partition("## In PostgreSQL")[2].partition("### Operation")[0]
    blocks = re.findall(r"^```(sh|sql)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    home = twin.environment.home
    twin.environment.configure(bases={"handbook": str(twin.folder)}, repos={"*": "handbook"})
    outputs = []
    try:
        for kind, block in blocks:
            if kind == "sql":
                twin.database.run(block)
            for line in block.splitlines() if kind == "sh" else ():
                _, *arguments = shlex.split(line.partition("  #")[0].replace("~/", f"{home}/"))
                if "--watch" in arguments:
                    continue
                if arguments[:2] == ["base", "add"]:  # by a member, who does not have the folder
                    twin.environment.configure()
                url = twin.database.url("ada" if arguments[0] == "base" else "postgres")
                arguments = [one.replace("postgresql://kb.example/team", url) for one in arguments]
                outputs.append(kbhub(*arguments, code=0).out)
        assert "lore@" in kbhub("remember", "Deploy on Mondays.", "--scope", "team", code=0).out
    finally:
        for role in ("ada", "ci", "everybody"):
            twin.database.admin.execute(f"DROP ROLE IF EXISTS {role}")

    assert "everybody: reader of handbook\n" in outputs


def test_the_example_works_as_its_page_says(twin, kbhub, tmp_path):
    folder = tmp_path / "team-hub"
    shutil.copytree(EXAMPLE, folder)
    url, stands_for = twin.database.url(), "postgresql://postgres@localhost/team"
    config = folder / "kbhub.json"
    config.write_text(config.read_text().replace(stands_for, url))
    commands = re.findall(r"^kbhub (.*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    outputs = []
    for command in commands:
        arguments = [
            part.replace(stands_for, url)
            .replace("handbook=handbook", f"handbook={folder}/handbook")
            .replace("kbhub.json", str(config))
            for part in shlex.split(command)
        ]
        outputs.append(kbhub(*arguments, code=0).out)

    assert len(outputs) == 5
    assert outputs[1].startswith("handbook: 2 added")
    assert "handbook@release.md" in outputs[3]
    assert "lore@" in outputs[4]
