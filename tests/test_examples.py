"""The examples are right: they load, and their queries find what a reader expects."""

import json
import os
import re
import runpy
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from conftest import Environment, make_environment, synced
from kbhub.api import Hub
from kbhub.cli.app import app
from kbhub.editing.audit import audit
from kbhub.reading.neighbours import related
from kbhub.workspace.config import load_config, read_jsonc, read_pointer

TESTS = Path(__file__).parent
EXAMPLES = TESTS.parent / "examples"
TEAM = EXAMPLES / "team"
BROKEN = EXAMPLES / "broken"
CONFIGS = [
    EXAMPLES / "global-config" / "kbhub.json",
    *(file for file in sorted(EXAMPLES.rglob(".kbhub.json")) if BROKEN not in file.parents),
]

BASES = {
    "zettelkasten": [
        ("how fast do we forget", "202601041012 Forgetting curve.md"),
        ("rereading feels like knowing", "202601051700 Desirable difficulty.md"),
        ("Ebbinghaus", "202601041012 Forgetting curve.md"),
        ("repeat after a day tag:habit", "202601041030 Spaced repetition.md"),
    ],
    "adr": [
        ("how do we learn where a parcel is", "0003-webhooks-from-carriers.md"),
        ("why not kafka", "0004-postgres-as-queue.md"),
        ("queue status:accepted", "0004-postgres-as-queue.md"),
        ("poll status:superseded", "0002-poll-carriers.md"),
    ],
    "runbooks": [
        ("disk almost full tag:database", "disk-full.md"),
        ("severity:SEV1", "certificate-expired.md"),
        ("ReplicaLag", "replica-lag.md"),
        ("browser warning for customers", "certificate-expired.md"),
    ],
    "japanese": [
        ("経費精算の締め切り", "経費精算.md"),
        ("宿泊費の上限 tag:出張", "出張.md"),
        ("有給休暇は半日で取れますか", "休暇.md"),
    ],
    "monorepo/apps/web": [("when do we release", "releases.md")],
    "monorepo/services/billing": [("how do I correct an invoice", "invoices.md")],
    "monorepo/services/checkout": [("log line format", "logging.md")],
}
"""Example → queries, each with the document that a reader expects first."""

QUERIES = [
    ("how do we roll back a release", "runbooks/rollback.md"), ("undo a deployment", "runbooks/rollback.md"),
    ("can I deploy on friday afternoon", "runbooks/deploy.md"), ("who gets paged for a SEV1", "runbooks/incident.md"),
    ("swap my on-call shift", "on-call.md"), ("branch name for a bug fix", "branch-naming.md"),
    ("pagination cursor", "api-conventions.md"), ("Idempotency-Key", "api-conventions.md"),
    ("port 4000 is already in use", "local-setup.md"), ("test credit card that is declined", "local-setup.md"),
    ("rename a column without downtime", "database-migrations.md"),
    ("why not mongodb", "decisions/0001-postgres-not-mongodb.md"),
    ("turn a feature off for customers", "decisions/0003-feature-flags.md"),
    ("what does windfall mean", "glossary.md"), ("ローカル環境の構築", "ja/local-setup.md"),
    ("文字化け", "ja/local-setup.md"),
]  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Environment:
    """A user who just unpacked the examples in a repository of their own."""
    user = make_environment(tmp_path_factory.mktemp("user"))
    shutil.copytree(EXAMPLES, user.project / "examples")
    return user


@pytest.fixture(scope="module")
def team(unpacked) -> Hub:
    """A hub in the example project, for a user who never ran kbhub before."""
    return synced(unpacked, root=unpacked.project / "examples/team")


def test_a_query_finds_its_document_first_and_the_team_is_one_base_without_problems(team):
    """As a person on that team would ask it, with the model that comes with kbhub."""
    assert [query for query, expected in QUERIES if team.search(query).hits[0].ref != expected] == []
    status = team.status()
    (base,) = status.bases
    assert (status.problems, base.problems) == ((), ())
    assert [one.path for one in audit(team).findings if "link" in one.check or one.check == "related"] == []
    assert (base.base.origin, base.base.name) == ("pointer", "Orchard")
    assert base.documents == len(list((TEAM / "knowledge").rglob("*.md")))
    assert {name for name in base.base.contexts if not (TEAM / "knowledge" / name).is_dir()} == set()


def test_the_configs_have_no_warnings_and_the_snippets_are_described_and_start_a_command_that_exists(tmp_path):
    loaded = load_config(EXAMPLES / "global-config" / "kbhub.json", {}, tmp_path)
    _, warnings = read_pointer(TEAM / ".kbhub.json")
    settings = loaded.settings
    assert (loaded.warnings, warnings) == ((), ())
    assert len([key for key in settings.repos if key != "*"]) == 5
    assert {name for names in settings.repos.values() for name in names} == set(settings.bases)
    assert [file for file in CONFIGS if not (file.parent / read_jsonc(file)["$schema"]).is_file()] == []

    # They are plain JSON, and `kbhub` takes their arguments.
    readme = (EXAMPLES / "clients" / "README.md").read_text("utf-8")
    for file in (EXAMPLES / "clients").glob("*.json"):
        (servers,) = json.loads(file.read_text("utf-8")).values()
        command, bound, *_ = app.parse_args(servers["kbhub"]["args"])
        assert (servers["kbhub"]["command"], command.__name__, bound.args) == ("kbhub", "serve", ())
        assert f"({file.name})" in readme


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Opens an example, once, for a user whose repository it is."""

    @cache
    def hub(folder) -> Hub:
        user = make_environment(tmp_path_factory.mktemp("user"))
        shutil.copytree(EXAMPLES / folder.split("/")[0], user.project, dirs_exist_ok=True)
        return synced(user, root=user.project.joinpath(*folder.split("/")[1:]))

    return hub


@pytest.mark.parametrize("folder", BASES)
def test_a_base_answers_as_its_readme_promises(folder, opened):
    hub = opened(folder)
    status = hub.status()
    assert (status.problems, [base.problems for base in status.bases]) == ((), [()])
    for query, expected in BASES[folder]:
        assert hub.search(query).hits[0].ref == expected, query


@pytest.mark.parametrize("folder", sorted({name.split("/")[0] for name in BASES}))
def test_the_readme_of_a_base_shows_commands_that_work(folder, kbhub, unpacked, monkeypatch):
    monkeypatch.chdir(unpacked.project)
    readme = (EXAMPLES / folder / "README.md").read_text("utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL))
    commands = re.findall(r"^kbhub (.*)$", blocks, re.MULTILINE)
    assert commands
    for command in commands:
        assert kbhub(*shlex.split(command), code=0).out, command


def test_a_slip_box_is_joined_a_superseded_decision_says_so_and_a_service_can_be_off(opened):
    found = related(opened("zettelkasten"), "202601041030 Spaced repetition.md")
    hits = opened("adr").search("how do the carriers tell where a parcel is").hits
    refs, off = [hit.ref for hit in hits], opened("monorepo/services/legacy").discovery()
    assert {one.kind for one in found.neighbours} >= {"link", "backlink"}
    assert found.left == ()
    assert refs.index("0003-webhooks-from-carriers.md") < refs.index("0002-poll-carriers.md")
    assert hits[refs.index("0002-poll-carriers.md")].stale
    assert (off.bases, off.off) == ((), True)


ADA = "/home/ada"
"""The home of the user in the messages."""


def messages(name, user, kbhub) -> str:
    """What kbhub says about a broken file in the place where it belongs."""
    (user.home / "notes").mkdir()
    shop = user.home / "work" / "shop"
    shutil.copytree(BROKEN / name, shop)
    if (shop / "kbhub.json").exists():
        (shop / "kbhub.json").rename(user.home / ".kbhub.json")
    done = kbhub("status", "--json", "--root", str(shop))
    problems = [] if done.code else done.json["problems"]
    told = [f"{one['subject']}: {one['message']}" for one in problems] or [done.err.strip()]
    assert done.code == (2 if done.err else 0)
    return "".join(f"{one}\n" for one in told).replace(str(user.home), ADA)


@pytest.mark.skipif(os.name == "nt", reason="the messages have paths as POSIX writes them")
@pytest.mark.parametrize("name", sorted(folder.name for folder in BROKEN.iterdir() if folder.is_dir()))
def test_a_broken_file_is_told_in_these_words(name, environment, kbhub):
    told = messages(name, environment, kbhub)
    file = BROKEN / name / "message.txt"
    before = file.read_text("utf-8") if file.exists() else ""
    if told != before:
        file.write_text(told, "utf-8")
    assert told == before
    assert f"{ADA}/" in told or told.startswith("notes: ")


def test_every_broken_file_is_listed_with_its_message():
    folders = sorted(folder for folder in BROKEN.iterdir() if folder.is_dir())
    rows = []
    for folder in folders:
        (config,) = (file for file in folder.iterdir() if file.name != "message.txt")
        text = (folder / "message.txt").read_text("utf-8").strip().replace("\n", " ")
        rows.append(f"- [{folder.name}]({folder.name}/{config.name}): `` {text} ``")
    file = BROKEN / "README.md"
    start, end = "<!-- list: generated by tests/test_examples.py -->\n", "<!-- end -->"
    before = file.read_text("utf-8")
    head, rest = before.split(start)
    made = f"{head}{start}\n" + "\n".join(rows) + f"\n\n{end}{rest.partition(end)[2]}"
    if made != before:
        file.write_text(made, "utf-8")

    assert made == before


SCRIPTS = {
    "question.py": (
        ["how do we roll back a release"],
        r"0\.9\d  runbooks/rollback\.md:\d+  .*\[1\] runbooks/rollback\.md",
    ),
    "remember.py": (["The backup of Friday took 40 minutes."], r"stored: \w+\n0\.\d\d  The backup of Friday"),
    "memory_tool.py": (['{"command": "view", "path": "/memories"}'], "Here're the files in /memories:\n$"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_says(name, kbhub, unpacked, monkeypatch, capsys):
    arguments, expected = SCRIPTS[name]
    monkeypatch.setattr(sys, "argv", [name, str(unpacked.project / "examples/team"), *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / "python-api" / name), run_name="__main__")
    assert ended.value.code == 0
    assert re.search(expected, capsys.readouterr().out, re.DOTALL)


def test_files_of_the_memory_tool_are_memories(environment, unpacked):
    hub = environment.hub(root=unpacked.project / "examples/team")
    run = runpy.run_path(str(EXAMPLES / "python-api" / "memory_tool.py"))["run"]
    old, new = "/memories/notes/plan.md", "/memories/plan.md"

    run(hub, {"command": "create", "path": old, "file_text": "Ship on Monday.\nTell the team."})
    run(hub, {"command": "str_replace", "path": old, "old_str": "Monday", "new_str": "Tuesday"})
    run(hub, {"command": "insert", "path": old, "insert_line": 1, "insert_text": "Not before noon."})
    run(hub, {"command": "rename", "old_path": "/memories/notes", "new_path": "/memories/done"})
    run(hub, {"command": "rename", "old_path": "/memories/done/plan.md", "new_path": new})
    shown = run(hub, {"command": "view", "path": new, "view_range": [1, 2]})
    listed = run(hub, {"command": "view", "path": "/memories"})
    run(hub, {"command": "delete", "path": new})

    assert shown.endswith("numbers:\n     1\tShip on Tuesday.\n     2\tNot before noon.")
    assert listed == f"Here're the files in /memories:\n{new}"
    with pytest.raises(ValueError, match="does not exist"):
        run(hub, {"command": "view", "path": new})


def test_every_example_is_listed_and_run():
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    folders = {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()}
    others = ("setup/test_setup_agents.py", "extensions/team/test_publishing.py", "test_extensions.py")
    tested = "".join((TESTS / file).read_text("utf-8") for file in (Path(__file__).name, *others))
    assert {name for name in folders if f"`{name}/`" not in readme} == set()
    assert {name for name in folders if f'"{name}' not in tested} == set()
