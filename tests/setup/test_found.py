"""`kbhub base add --found`: what clients keep of this project is found, and nothing of another."""

import hashlib
import json
import os
import re

import pytest

from conftest import synced
from kbhub.errors import UsageError
from kbhub.setup.found import add_found
from kbhub.types import Query
from kbhub.workspace.config import read_jsonc

posix = pytest.mark.skipif(os.name == "nt", reason="needs links")
KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"


@pytest.fixture(autouse=True)
def own(environment):
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        environment.env.pop(name, None)


def claude_folder(environment, project):
    return environment.home / ".claude/projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(project))


def log(environment, place, *records):
    """Write a log of a client: lines of JSON, below the home directory."""
    return environment.write(environment.home / place, "".join(json.dumps(record) + "\n" for record in records))


def claude_log(environment, project, text, *, name="s1"):
    record = {"type": "user", "sessionId": name, "cwd": str(project), "timestamp": "2026-11-02T10:00:00Z"}
    record["message"] = {"role": "user", "content": text}
    return log(environment, claude_folder(environment, project) / f"{name}.jsonl", record)


def codex_log(environment, project, text, name):
    start = {"type": "session_meta", "payload": {"id": name, "cwd": str(project), "instructions": "x" * 50_000}}
    said = {"type": "message", "role": "user", "content": [{"text": text}]}
    place = f".codex/sessions/2026/11/02/rollout-{name}.jsonl"
    return log(environment, place, start, {"type": "response_item", "payload": said})


def copilot_log(environment, project, text, name):
    start = {"type": "session.start", "data": {"sessionId": name, "context": {"cwd": str(project)}}}
    said = {"type": "user.message", "data": {"content": text}}
    return log(environment, f".copilot/session-state/{name}/events.jsonl", start, said)


def gemini_log(environment, folder, text):
    record = {"id": "m1", "type": "user", "timestamp": "2026-09-01T10:00:00Z", "content": text}
    return log(environment, f".gemini/tmp/{folder}/chats/session-1.jsonl", record).parents[1]


def cursor_log(environment, project, text):
    name = re.sub(r"[^a-zA-Z0-9]", "-", str(project)).strip("-")
    said = {"content": [{"type": "text", "text": f"<user_query>{text}</user_query>"}]}
    place = f".cursor/projects/{name}/agent-transcripts/u1/u1.jsonl"
    return log(environment, place, {"role": "user", "message": said})


def added(environment, project=None):
    hub = environment.hub(cwd=project or environment.project)
    return {base.id: base for base in add_found(hub).bases}


def texts(environment, words, project=None):
    """All excerpts found for some words in the bases that are active in a project."""
    hub = synced(environment, cwd=project or environment.project)
    return " ".join(hit.excerpt for hit in hub.search(Query(text=words, limit=50)).hits)


@pytest.fixture
def likes(environment):
    """Two repositories whose paths differ where the names of a client's folders do not."""
    projects = environment.home / "a-b", environment.home / "a/b"
    for project in projects:
        (project / ".git").mkdir(parents=True)
    return projects


@pytest.fixture
def other(environment):
    """Another repository of the same user."""
    project = environment.home / "other"
    (project / ".git").mkdir(parents=True)
    return project


def test_all_that_the_clients_keep_of_this_project_is_searched_here_alone(environment, other):
    project = environment.project
    claude_log(environment, project, "The zebra ledger books refunds.")
    environment.write(claude_folder(environment, project) / "memory/MEMORY.md", "# Notes\n\nThe zebra sleeps.\n")
    codex_log(environment, project, "Why does the zebra parser fail?", "a")
    copilot_log(environment, project, "Why is the zebra cart empty?", "p1")
    copilot_log(environment, other, "The zebra of all projects", "p2")
    place = gemini_log(environment, "shop", "Explain the zebra cache")
    environment.write(place / ".project_root", str(project))
    environment.write(place / "memory/MEMORY.md", "The zebra index is private.\n")
    environment.write(environment.home / ".gemini/GEMINI.md", "I ride a zebra.\n")
    environment.write(environment.home / ".gemini/oauth.md", "zebra token file\n")
    environment.write(environment.home / ".codex/memories/memory_summary.md", "Prefers zebra stripes.\n")
    environment.write(environment.home / ".codex/memories/raw_memories.md", "zebra of all projects\n")
    log(environment, ".codex/memories/stray.jsonl", {"cwd": "/x", "text": "zebra of all projects"})
    bases = added(environment)
    name = project.name

    ours = {f"{client}-{name}" for client in ("claude", "codex", "copilot", "gemini")}
    assert set(bases) == {*ours, "codex-all", "gemini-all"}
    assert all(base.added for base in bases.values())
    found = texts(environment, "zebra")
    for told in (
        "books refunds", "zebra sleeps", "parser fail", "cart empty", "zebra cache", "is private", "ride a zebra",
        "stripes",
    ):  # fmt: skip
        assert told in found
    assert "token file" not in found
    assert "all projects" not in found
    assert texts(environment, "zebra", other) == ""
    assert not any(base.writable for base in environment.hub().discovery().bases if base.id in bases)
    assert not any(base.added for base in added(environment).values())


def test_what_cursor_keeps_is_taken_unless_it_may_be_another_projects(environment, other, likes):
    """Its logs do not say where they began, and `/x/a-b` and `/x/a/b` have one folder."""
    one, two = likes
    cursor_log(environment, environment.project, "The heron of ours.")
    cursor_log(environment, other, "The heron of theirs.")
    cursor_log(environment, one, "The heron of one of two.")
    assert set(added(environment)) == {f"cursor-{environment.project.name}"}
    assert ("of ours" in texts(environment, "heron"), "theirs" in texts(environment, "heron")) == (True, False)
    assert [set(added(environment, project)) for project in (one, two)] == [set(), set()]


def test_two_projects_share_the_logs_of_codex_and_see_their_own(environment, other):
    """Each has its index and its kept texts, though the folder is one; also after the logs are deleted."""
    logs = [
        codex_log(environment, environment.project, "The walrus of ours.", "a"),
        codex_log(environment, other, "The walrus of theirs.", "b"),
        codex_log(environment, environment.project / "api", "The walrus below.", "c"),
    ]
    (environment.project / "inner/.git").mkdir(parents=True)
    logs.append(codex_log(environment, environment.project / "inner", "The walrus of a repository inside.", "d"))
    logs.append(codex_log(environment, environment.project / "../../home/other", "The walrus by dots.", "e"))
    added(environment)
    added(environment, other)
    for _ in range(2):
        ours, theirs = texts(environment, "walrus"), texts(environment, "walrus", other)
        assert ("of ours" in ours, "below" in ours) == (True, True)
        assert ("of theirs" in ours, "inside" in ours, "by dots" in ours) == (False, False, False)
        assert ("of theirs" in theirs, "by dots" in theirs, "of ours" in theirs) == (True, True, False)
        for log in logs:
            log.unlink(missing_ok=True)


def test_a_folder_that_two_projects_share_is_not_taken(environment, likes):
    """`/x/a-b` and `/x/a/b` have one folder in Claude Code, so what it holds may be the other's."""
    one, two = likes
    assert claude_folder(environment, one) == claude_folder(environment, two)
    environment.write(claude_folder(environment, one) / "memory/MEMORY.md", "The secret of the other.\n")
    assert added(environment, one) == {}  # nothing says whose it is
    claude_log(environment, two, "two")
    assert added(environment, one) == {}
    claude_log(environment, one, "one", name="s2")
    assert added(environment, one) == {}
    assert added(environment, two) == {}


def test_claudes_memories_outlive_its_logs_and_a_subfolder_counts_by_its_logs(environment):
    project = environment.project
    for folder, words in ((project, "of ours"), (project / "docs", "without a log")):
        environment.write(claude_folder(environment, folder) / "memory/MEMORY.md", f"The stoat {words}.\n")
    claude_log(environment, project / "web", "The stoat below.")
    claude_log(environment, project.with_name(f"{project.name}-api"), "The stoat of a sibling.")
    assert set(added(environment)) == {f"claude-{project.name}", f"claude-{project.name}-web"}
    found = texts(environment, "stoat")
    assert ("of ours" in found, "below" in found, "without" in found, "sibling" in found) == (True, True, False, False)


def test_a_log_that_does_not_say_yet_is_looked_at_again_and_what_a_client_forgot_is_gone_and_its_logs_stay(environment):
    claude_log(environment, environment.project, "hello")
    added(environment)
    hub = environment.hub()
    late = environment.write(claude_folder(environment, environment.project) / "s2.jsonl", '{"type": "summary"}\n')
    hub.sync()
    text = claude_log(environment, environment.project, "The ibis came late.", name="s2").read_text("utf-8")
    late.write_text('{"type": "summary"}\n' + text, "utf-8")
    hub.sync()
    assert "came late" in hub.search(Query(text="ibis")).hits[0].excerpt

    claude_log(environment, environment.project, "The loquat log.")
    memory = environment.write(claude_folder(environment, environment.project) / "memory/m.md", "The loquat rule.\n")
    added(environment)
    assert "loquat rule" in texts(environment, "loquat")
    memory.unlink()
    claude_folder(environment, environment.project).joinpath("s1.jsonl").unlink()
    found = texts(environment, "loquat")
    assert ("loquat rule" in found, "loquat log" in found) == (False, True)


@posix
def test_links_lead_to_nothing_of_another_project(environment, other):
    ours, theirs = (claude_folder(environment, project) for project in (environment.project, other))
    claude_log(environment, other, "The otter is theirs.")
    environment.write(theirs / "memory/MEMORY.md", "The otter memory is theirs.\n")
    ours.symlink_to(theirs)
    (environment.home / ".gemini/tmp").mkdir(parents=True)
    place = gemini_log(environment, "other", "The otter chat is theirs.")
    environment.write(place / ".project_root", str(other))
    link = environment.home / ".gemini/tmp/shop"
    link.mkdir()
    (link / ".project_root").symlink_to(environment.write(environment.home / "root.txt", str(environment.project)))
    assert added(environment) == {}

    ours.unlink()
    claude_log(environment, environment.project, "The otter is ours.")
    (ours / "memory").symlink_to(theirs / "memory")
    (ours / "s7.jsonl").symlink_to(theirs / "s1.jsonl")
    assert len(added(environment)) == 1
    found = texts(environment, "otter")
    assert ("is ours" in found, "theirs" in found) == (True, False)


def test_secrets_stay_out(environment):
    claude_log(environment, environment.project, f"The badger key is {KEY} today.")
    memory = claude_folder(environment, environment.project) / "memory"
    environment.write(memory / "a.md", f"The badger uses api_key={KEY} always.\n")
    environment.write(memory / "b.md", "The badger digs.\n")
    added(environment)
    found = texts(environment, "badger")
    assert ("badger key" in found, "badger digs" in found, KEY in found, "uses" in found) == (True, True, False, False)


def test_an_older_folder_of_gemini_is_known_by_the_hash_of_the_path(environment, other):
    for project, words in ((environment.project, "ours"), (other, "theirs")):
        gemini_log(environment, hashlib.sha256(str(project).encode()).hexdigest(), f"The lynx is {words}.")
    added(environment)
    found = texts(environment, "lynx")
    assert ("ours" in found, "theirs" in found) == (True, False)


def test_what_was_active_in_a_project_stays_so_and_ids_do_not_clash(environment):
    environment.write(environment.home / "work/notes/a.md", "# A\n")
    name = environment.project.name
    config = {"bases": {f"claude-{name}": "~/work/notes"}, "repos": {str(environment.project.parent): f"claude-{name}"}}
    file = environment.configure(**config)
    claude_log(environment, environment.project, "hello")
    assert set(added(environment)) == {f"claude-{name}-2"}
    active = [base.id for base in environment.hub().discovery().bases]
    assert {f"claude-{name}", f"claude-{name}-2"} <= set(active)
    assert read_jsonc(file)["bases"][f"claude-{name}-2"]["keepDeleted"] == ["*.jsonl", "session-*.json"]


def test_memories_stay_out_once_another_project_has_the_same_folder(environment, likes):
    one, two = likes
    claude_log(environment, one, "The medlar is ours.")
    claude_log(environment, one, "", name="s0")
    log(environment, claude_folder(environment, one) / "s2.jsonl", {"type": "summary", "summary": "names no folder"})
    assert set(added(environment, one)) == {"claude-a-b"}
    claude_log(environment, two, "The medlar is theirs.", name="s9")
    environment.write(claude_folder(environment, two) / "memory/plan.md", "The secret medlar plan.\n")
    found = texts(environment, "medlar", one)
    assert ("is ours" in found, "secret" in found, "theirs" in found) == (True, False, False)


def test_a_repository_inside_sees_nothing_of_the_outer_one(environment):
    claude_log(environment, environment.project, "The quince is ours.")
    added(environment)
    inner = environment.project / "inner"
    (inner / ".git").mkdir(parents=True)
    assert "quince" in texts(environment, "quince")
    assert texts(environment, "quince", inner) == ""


def test_a_folder_that_is_a_base_of_other_settings_stays_what_it_is_and_comments_too(environment, other):
    environment.write(environment.home / ".gemini/GEMINI.md", "I ride a yak.\n")
    environment.write(environment.home / ".gemini/tmp/zz/chats/session-1.json", "[]")
    claude_log(environment, environment.project, "hello")
    project = environment.project
    config = environment.write(
        environment.home / ".kbhub.json",
        f"""{{"bases": {{"gem": {{"knowledge": "~/.gemini", "kind": "session"}}}},
        "repos": {{"{other}": ["gem"], "{project}": [  // ask Ann
        ]}}}}""",
    )
    made = add_found(environment.hub())

    assert [base.id for base in made.bases] == [f"claude-{project.name}"]
    assert made.left == (environment.home / ".gemini",)
    assert "gem" not in {base.id for base in environment.hub().discovery().bases}
    assert "// ask Ann" in config.read_text()


def test_without_a_project_nothing_is_found_and_the_command_adds_them(environment, kbhub):
    with pytest.raises(UsageError, match="No project"):
        added(environment, environment.home)
    assert "keep nothing of" in kbhub("base", "add", "--found", code=1).out
    claude_log(environment, environment.project, "hello")
    assert "Added claude-" in kbhub("base", "add", "--found", code=0).out


def test_setup_offers_it_where_kbhub_is_new_and_once(account):
    log = account.home / ".claude/projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(account.project)) / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"type": "user", "cwd": str(account.project), "message": {"content": "hi"}}) + "\n")
    config = account.home / ".kbhub.json"
    _, _, err = account.run("--no-hooks", "--no-subagent", typed="y\nn\n")
    assert ("Search what your agents keep" in err, config.exists()) == (True, False)
    assert "agents keep" not in account.run("--no-hooks", "--no-subagent", typed="y\n")[2]
    account.run("--remove", "--yes")
    _, out, err = account.run("--no-hooks", "--no-subagent", typed="y\ny\n")
    assert "Added the base claude-" in out + err
    assert [base["kind"] for base in read_jsonc(config)["bases"].values()] == ["session"]
