"""What goes wrong in mdvault and knowledgebased does not go wrong here.

One test per flaw that has no home in the tests of a module. "mdvault: 7" is the seventh flaw in our notes on it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kbhub.cli.app import app
from kbhub.server.server import create_server, instructions
from kbhub.types import Query

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.usefixtures("no_pause")

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]


def command(environment, *arguments: str, **options):
    """Give the arguments of `subprocess` that run kbhub as its users do."""
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src")}
    return {"args": [sys.executable, "-m", "kbhub", *arguments], "cwd": environment.project, "env": env, **options}


def kbhub_process(environment, *arguments: str):
    return subprocess.run(**command(environment, *arguments), capture_output=True, text=True, check=False, timeout=60)


def found(hub, text, **options) -> list[str]:
    return [hit.ref for hit in hub.search(Query(text=text, **options)).hits]


def two_bases(environment, first: str, second: str) -> None:
    """Configure two bases of the user's, active everywhere, each in the folder of its name."""
    bases = {first: f"~/{first}", second: f"~/{second}"}
    environment.write(environment.home / ".kbhub.json", json.dumps({"bases": bases, "repos": {"*": [first, second]}}))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- what is indexed, and what stays -----------------------------------------------------------------------------------


def test_names_are_compared_as_they_are(environment):
    """`_`, `%` and `*` in the name of a base or document, or in a docid, stand for themselves (mdvault: 1)."""
    two_bases(environment, "my_vault", "myXvault")
    for base in ("my_vault", "myXvault"):
        for name in ("a_b.md", "aXb.md", "A_B2.md"):
            environment.write(environment.home / base / name, f"# {base} {name}\n")
    hub = environment.hub()
    hub.sync()
    (environment.home / "my_vault" / "a_b.md").unlink()
    hub.sync(["my_vault"], full=True)

    assert [2, 3] == [one.documents for one in sorted(hub.status().bases, key=lambda one: one.documents)]
    assert hub.read("myXvault@a_b.md").readings[0].text == "# myXvault a_b.md"
    for ref in ("#%", "#______", "#*", "my_vault@a_b.md", "myXvault@%", "my%@aXb.md"):
        assert not hub.read([ref]).readings, ref


def test_a_folder_that_git_comes_to_ignore_loses_nothing(environment):
    """An enclosing repository that ignores the base takes no document out of the index (mdvault: 3)."""
    environment.write("knowledge/a.md", "# Zebra\n")
    hub = environment.hub()
    hub.sync()
    environment.write(".gitignore", "/knowledge/*\n")
    report = hub.sync()[0]

    assert (0, 1) == (report.removed, report.unchanged)
    assert ["a.md"] == found(hub, "zebra", mode="keyword")


def test_an_edit_to_bytes_that_are_no_utf8_is_indexed_and_reported(environment):
    """The document stays findable with its new text, and status names the file (mdvault: 3)."""
    environment.write("knowledge/a.md", "# Zebra\n")
    hub = environment.hub()
    hub.sync()
    environment.write("knowledge/a.md", b"# Zebra\n\ncaf\xe9 okapi\n")
    hub.sync()

    assert ["a.md"] == found(hub, "zebra okapi", mode="keyword")
    assert ["a.md"] == [problem.subject for problem in hub.status().bases[0].problems]


def test_a_file_of_records_stops_nothing(environment):
    """Lines of JSON that are no objects are text like any other, where a base includes them (mdvault: 4)."""
    environment.write(".kbhub.json", '{"include": ["*.jsonl"]}')
    environment.write("knowledge/data.jsonl", '[1, 2]\nnull\n{"okapi": 1}\n"open\n')
    environment.write("knowledge/note.md", "# Zebra\n")
    hub = environment.hub()

    assert (2, ()) == ((report := hub.sync()[0]).added, report.failed)
    assert ["data.jsonl"] == found(hub, "okapi", mode="keyword")


def test_no_word_of_a_document_is_out_of_reach(environment):
    """Front matter, a title, a short introduction, comments in code: each is found, and shown as it is (mdvault: 5)."""
    text = (
        "---\nowner: quokka\n---\n# Wombat\n\nTiny numbat.\n\n```\n# bilby\nrun   potoroo\n```\n\n## Last\n\nDunnart.\n"
    )
    environment.write("knowledge/a.md", text)
    hub = environment.hub()
    hub.sync()

    for word in ("quokka", "wombat", "numbat", "bilby", "potoroo", "dunnart"):
        assert word in hub.search(Query(text=word, mode="keyword")).hits[0].excerpt.lower()
    assert "# bilby\nrun   potoroo\n" in hub.search(Query(text="potoroo", mode="keyword")).hits[0].excerpt


def test_a_repository_inside_a_base_belongs_to_it(environment):
    """Git is not asked which files there are: nested repositories, `.MD` and odd names count (mdvault: section 1.3)."""
    for name in ("inner/a.md", "SHOUT.MD", 'say "hi".md', "tab\there.md", "mail@home.md"):
        environment.write(f"knowledge/{name}", "# Zebra\n")
    subprocess.run(["git", "init", "-q", str(environment.project / "knowledge" / "inner")], check=True)
    hub = environment.hub()
    hub.sync()
    refs = found(hub, "zebra")

    assert {"inner/a.md", "SHOUT.MD", 'say "hi".md', "tab\there.md", "mail@home.md"} == set(refs)
    assert 5 == len(hub.read(refs).readings)


def test_odd_front_matter_sinks_neither_its_document_nor_others(environment):
    """Values of unexpected types are data, also numbers among the tags (knowledgebased: 7)."""
    odd = ["tags: foo", "tags: [2024, true, null, {a: b}]", "tags: {a: 1}", "related: [1]", "refs: 5\ndate: [x]", "- a"]
    for number, fields in enumerate(odd):
        environment.write(f"knowledge/odd{number}.md", f"---\n{fields}\n---\n# Zebra {number}\n")
    environment.write("knowledge/good.md", "# Zebra\n")
    hub = environment.hub()

    assert (7, ()) == ((report := hub.sync()[0]).added, report.failed)
    assert 7 == len(found(hub, "zebra", limit=20))
    assert ["odd1.md"] == found(hub, "2024", mode="keyword")


# -- what is found -----------------------------------------------------------------------------------------------------


def test_a_copy_in_another_base_hides_nothing(environment):
    """The same text in two bases is a hit in each, and the filter counts before the cut (mdvault: 7)."""
    two_bases(environment, "large", "small")
    for base in ("large", "small"):
        environment.write(environment.home / base / "same.md", "# Zebra\n\nStripes.\n")
    for number in range(40):
        environment.write(environment.home / "large" / f"{number}.md", f"# Zebra {number}\n\nStripes, stripes.\n")
    hub = environment.hub()
    hub.sync()

    assert ["small@same.md"] == found(hub, "zebra stripes", bases=("small",), limit=1)
    assert {"large@same.md", "small@same.md"} <= set(found(hub, "zebra stripes", limit=100))


@pytest.mark.parametrize(("query", "wanted"), [("zebra?", True), ("(zebra)!", True), ("art", False), ("bra", False)])
def test_a_word_is_a_word(environment, query, wanted):
    """Punctuation around a word does not count, and a part of a word is not the word (mdvault: 11)."""
    environment.write("knowledge/a.md", "# Start\n\nA zebra.\n")
    hub = environment.hub()
    hub.sync()

    assert wanted == bool(found(hub, query, mode="keyword"))


def test_an_answer_without_any_of_the_words_says_so(environment):
    """Hits that are near in meaning only are not passed off as matches (mdvault: 11, knowledgebased: 6)."""
    environment.write("knowledge/a.md", "# Rollback\n\nUndo the last release and go back to the version before.\n")
    hub = environment.hub()
    hub.sync()
    near = hub.search(Query(text="reverting deployments"))
    both = hub.search(Query(text="reverting the release"))

    assert near.hits
    assert near.notes[0].startswith("No document contains the query's words")
    assert both.hits
    assert not both.notes


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_the_only_document_is_found(environment, mode):
    """A score does not depend on there being worse documents (knowledgebased: 6)."""
    environment.write("knowledge/a.md", "# Rollback\n\nHow we roll back a release.\n")
    hub = environment.hub()
    hub.sync()
    (hit,) = hub.search(Query(text="roll back a release", mode=mode)).hits

    assert hit.score > 0.9


def test_the_end_of_a_long_document_has_a_meaning_too(environment):
    """What stands after thousands of words is found by meaning, with its lines (knowledgebased: 14)."""
    filler = "\n\n".join(
        f"## Part {number}\n\n{'The invoice lists prices and discounts. ' * 20}" for number in range(40)
    )
    environment.write(
        "knowledge/long.md", f"# Long\n\n{filler}\n\n## Last\n\n{'Bread is baked in a hot oven. ' * 30}\n"
    )
    environment.write("knowledge/other.md", "# Other\n\nThe parcel goes out by train.\n")
    hub = environment.hub()
    hub.sync()
    hit = hub.search(Query(text="baking loaves", mode="semantic")).hits[0]

    assert ("long.md", "Last") == (hit.ref, hit.headings[-1])


def test_meaning_follows_the_files(environment):
    """A new document is found by meaning with the next search, a deleted one no more (knowledgebased: 12)."""
    environment.write("knowledge/a.md", "# Parcel\n\nThe parcel goes out by train.\n")
    hub = environment.hub()
    hub.sync()
    new = environment.write("knowledge/new.md", "# Bread\n\nBread is baked in a hot oven.\n")
    hub.freshen(max_age=0)
    before = found(hub, "baking loaves", mode="semantic")
    new.unlink()
    hub.freshen(max_age=0)

    assert "new.md" == before[0]
    assert "new.md" not in found(hub, "baking loaves", mode="semantic")
    assert hub.status().bases[0].vectors == hub.status().bases[0].chunks


def test_refs_are_the_same_from_every_folder_of_a_project(environment):
    """Starting in a subfolder changes no ref (knowledgebased: 9)."""
    environment.write("knowledge/guides/a.md", "# Zebra\n")
    deep = environment.project / "src" / "deep"
    deep.mkdir(parents=True)
    hub = environment.hub(cwd=deep)
    hub.sync()

    assert ["guides/a.md"] == found(hub, "zebra")
    assert "# Zebra" == hub.read("guides/a.md").readings[0].text


# -- what it costs and leaves ------------------------------------------------------------------------------------------


def test_the_first_search_works_without_a_network(environment):
    """A machine that reaches nothing indexes and searches by meaning, and nothing is even tried (mdvault: 1.0)."""
    environment.write("knowledge/a.md", "# Bread\n\nBread is baked in a hot oven.\n")
    script = (
        "import socket, sys\n"
        "tried = []\n"
        "socket.getaddrinfo = socket.socket.connect = lambda *a, **k: tried.append(a) or sys.exit('a network')\n"
        "from kbhub.__main__ import main\n"
        "code = main(['search', '--mode', 'semantic', 'baking loaves'])\n"
        "sys.exit(code or bool(tried))\n"
    )
    options = command(environment) | {"args": [sys.executable, "-c", script]}
    done = subprocess.run(**options, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0
    said = ("kbhub: Verdict: ", "kbhub: Try other wordings")
    assert [line for line in done.stderr.splitlines() if not line.startswith(said)] == []
    assert "a.md:1-3" in done.stdout


@pytest.mark.parametrize("arguments", [("status",), ("read", "a.md"), ("index", "nope"), ("trust", "--list")])
def test_nothing_is_left_by_commands_that_index_nothing(environment, arguments):
    """No empty database lies about after a look or a mistake (mdvault: 14)."""
    environment.write("knowledge/a.md", "# Zebra\n")
    kbhub_process(environment, *arguments)

    assert [] == [*Path(environment.env["KBHUB_CACHE_DIR"]).rglob("*")]
    assert [] == [*environment.home.rglob("*")]


def test_majors_of_what_we_need_are_pinned():
    """A new major of a library cannot break a fresh installation (mdvault: 14)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert [] == [line for line in project["dependencies"] if "<" not in line.partition(";")[0]]


def test_two_first_runs_at_once_do_not_hurt_each_other(environment):
    """Neither fails for a lock, and the index is whole in the end (mdvault: 15)."""
    for number in range(80):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\n{'A zebra has stripes. ' * 40}\n")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(**command(environment, "index", **pipes)) for _ in range(2)]
    told = [process.communicate(timeout=60) for process in running]

    assert not [text for text in told if "locked" in "".join(text) or "Traceback" in "".join(text)]
    hub = environment.hub()
    assert 80 == hub.status().bases[0].documents
    assert [] == [*hub.freshen(max_age=0)]


@pytest.mark.parametrize("logged", [True, False])
def test_what_is_asked_stays_in_the_users_own_log_or_is_written_nowhere(environment, logged):
    """No cache, index or file of the project keeps a query; the log that may is the user's alone (mdvault: 16)."""
    environment.write("knowledge/a.md", "# Zebra\n")
    environment.env["KBHUB_LOG__QUERIES"] = str(logged).lower()
    for arguments in (("search", "zebra secretquestion"), ("search", "--mode", "semantic", "secretquestion")):
        assert kbhub_process(environment, *arguments).returncode == 0
    kept = [name for name, data in tree(environment.home.parent).items() if b"secretquestion" in data]

    assert bool(kept) == logged
    assert all(name.startswith("data/queries/") for name in kept)
    assert all((environment.home.parent / name).stat().st_mode & 0o077 == 0 for name in kept)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_documentation_exist(page):
    """Every `kbhub …` that a page shows can be typed, options and all (mdvault: 17)."""
    # Headings, and links to them, name commands alone; below a heading stands the usage.
    text = re.sub(r"^#.*$|^`kbhub .*`$|\[`kbhub [^\]]*\]", "", page.read_text("utf-8"), flags=re.MULTILINE)
    shown = re.findall(r"`kbhub ([^`\n]+)`", text)
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        shown += re.findall(
            r"(?:^|[/ ])kbhub ((?:search|read|index|status|init|trust|serve)\b.*)$", block, re.MULTILINE
        )

    for line in shown:
        app.parse_args(shlex.split(re.split(r" (?:[|<>]|&&) ?", line)[0], comments=True))


def test_the_project_is_left_as_it_is(environment):
    """Searching, reading, indexing and serving write nothing into a repository (knowledgebased: 17)."""
    environment.write("knowledge/a.md", "# Zebra\n")
    before = tree(environment.project)
    for arguments in (("index", "--full"), ("search", "zebra"), ("read", "a.md"), ("status",), ("trust", "--list")):
        assert kbhub_process(environment, *arguments).returncode == 0

    assert before == tree(environment.project)


@pytest.mark.parametrize("arguments", [("init",), ("trust",), ("index",), ("search", "x")])
def test_a_malformed_file_of_the_users_is_left_alone(environment, arguments):
    """No command repairs, empties or replaces a config or pointer that it cannot read (knowledgebased: 5)."""
    broken = '{"bases": {"notes": "~/notes"'
    config = environment.write(environment.home / ".kbhub.json", broken)
    done = kbhub_process(environment, *arguments)

    assert (2, "") == (done.returncode, done.stdout)
    assert str(config) in done.stderr
    config.unlink()
    pointer = environment.write(".kbhub.json", broken)
    kbhub_process(environment, *arguments)
    assert broken == pointer.read_text()


@pytest.mark.parametrize("arguments", [("--knowledge",), ("--knowlege=x",), ("extra",)])
def test_init_guesses_nothing(environment, arguments):
    """An option without its value, or misspelt, makes no folder somewhere else (knowledgebased: section 2.1)."""
    assert 2 == kbhub_process(environment, "init", *arguments).returncode
    assert [".git"] == [path.name for path in environment.project.iterdir()]


@pytest.mark.anyio
async def test_the_environment_stays_private(environment, monkeypatch):
    """No answer of a tool holds a variable of the environment (knowledgebased: 3)."""
    from mcp import Client

    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2")
    environment.write("knowledge/a.md", "# Zebra\n")
    hub = environment.hub(env={**environment.env, "DEPLOY_TOKEN": "hunter2-hunter2"})
    calls = [
        ("status", {}),
        ("search", {"query": "token"}),
        ("read", {"refs": "b.md"}),
        ("read", {"refs": "$DEPLOY_TOKEN"}),
    ]
    async with Client(create_server(hub, structured=True)) as client:
        answers = [(await client.call_tool(tool, arguments)).model_dump_json() for tool, arguments in calls]

    assert "hunter2" not in "".join([*answers, instructions(hub)])
