"""The command line does what it says, in words, streams and exit codes that people and scripts can rely on."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ask_documents import QUESTION, write_documents
from conftest import ran
from kbhub import __version__ as kbhub_version
from kbhub.cli import INTERRUPTED
from kbhub.cli.app import app
from kbhub.cli.commands import upkeep
from kbhub.cli.main import PIPE_CLOSED
from kbhub.editing.findings import CHECKS

ROOT = Path(__file__).parents[2]
TEAM = ROOT / "examples" / "team"
COMMANDS = [name for name in app if not name.startswith("-")]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp"

ROLLBACK = "# Rolling back\n\nRun `shop rollback` and say so in the channel.\n"
GLOSSARY = "# Glossary\n\nA crate is a parcel.\n"


@pytest.fixture
def shop(environment, kbhub):
    """The same, in a project with two documents."""
    environment.write("knowledge/runbooks/rollback.md", ROLLBACK)
    environment.write("knowledge/glossary.md", GLOSSARY)
    return kbhub


def process_env(environment, **changes) -> dict[str, str]:
    return {**environment.env, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", **changes}


def anonymous(text: str, environment) -> str:
    """Without what differs from run to run."""
    text = text.replace(str(environment.home.parent), "<tmp>")
    text = re.sub(r"\d+\.\d s\b", "<t> s", text)
    return re.sub(r"\d+\.\d [KM]iB", "<size>", text)


def test_one_command_searches_the_example(kbhub, environment):
    """The README's first command, for a user whose home is empty."""
    team = shutil.copytree(TEAM, environment.project.parent / "team")
    done = kbhub("search", "--root", str(team), "how do we roll back a release", code=0)
    assert re.match(r"\d\.\d\d  runbooks/rollback\.md:\d+-\d+  #[0-9a-f]{6}", done.out)
    shown = r"kbhub: Verdict: strong\.\nkbhub: Showing hits 1 to 5 of \d+; `--page 2` shows more\.\n"
    assert re.fullmatch(shown, done.err)
    assert list(environment.home.iterdir()) == []


def test_a_base_too_far_behind_is_searched_as_it_is_and_switched_off_is_said(shop, environment, monkeypatch):
    shop("admin", "index")
    for number in range(70):
        environment.write(f"knowledge/more/{number}.md", f"# Crate {number}\n")
    monkeypatch.setenv("KBHUB_LIMITS__FRESHEN_FILES", "69")
    command = ("search", "crate", "--mode", "keyword", "--json")
    behind = shop(*command)
    said = "project: 70 files changed since the last sync; run `kbhub admin index project` to index them."
    assert behind.err == f"kbhub: {said}\n"
    assert behind.json["total"] == 1
    monkeypatch.setenv("KBHUB_LIMITS__FRESHEN_FILES", "70")
    assert shop(*command).json["total"] == 71

    environment.write(".kbhub.json", '{"enabled": false}')
    assert '"enabled": false' in shop("search", "crate").err
    monkeypatch.setenv("KBHUB_DISABLE", "1")
    assert shop("search", "crate").err == "kbhub: KBHUB_DISABLE is set: kbhub is off here\n"


def test_words_are_joined_and_options_reach_the_query(shop, environment):
    assert shop("search", "rolling", "back", "--json").json["query"] == "rolling back"
    assert shop("search", "--json", "--", "git", "--no-track").json["query"] == "git --no-track"
    assert shop("search", "-", "--json", stdin="crate \xff".encode("latin-1")).json["query"] == "crate \ufffd"

    other = environment.home / "notes"
    environment.write(str(other / "crate.md"), "# Crate\n\nAnother crate.\n")
    base = ("--base", f"notes={other}")

    (hit,) = shop("search", "crate", "--in", "notes", *base, "--json").json["hits"]
    assert hit["ref"] == "notes@crate.md"
    pages = [shop("search", "crate", "-n", "1", "--page", page, *base, "--json").json["hits"] for page in ("1", "2")]
    assert {hit["ref"] for page in pages for hit in page} == {"glossary.md", "notes@crate.md"}
    assert shop("search", "crate", "--mode", "keyword", "--json").json["mode"] == "keyword"
    assert shop("search", "crate", "--explain", "--json").json["hits"][0]["trace"]["signals"]
    assert "keyword #1" in shop("search", "crate", "--explain").out


def test_a_search_without_any_of_the_words_warns_before_the_hits_and_a_long_audit_shows_its_progress(
    shop, streams, monkeypatch
):
    """On standard error, so that a pipe gets hits only; a person reads it first."""
    assert "No document contains the query's words" in shop("search", "revert deployment").err
    seen = streams("search", "revert deployment")
    assert seen.index("No document contains the query's words") < seen.index("rollback.md")
    monkeypatch.setattr("kbhub.cli.app.PATIENCE_SECONDS", 0)
    assert set(re.findall(r"checking documents .*?\d/(\d+)", streams("audit"))) == {"2"}
    assert shop("audit", "--check", "secrets").err == ""
    assert shop("admin", "index").err == ""


def test_a_question_is_answered_with_sources_and_noted_like_a_search(kbhub, environment):
    write_documents(environment)
    code, out, err = kbhub("ask", *QUESTION.split())
    assert code == 0
    for part in ("Roll back first and ask why later. A rollback takes ninety seconds.", "Sources:", "runbooks/"):
        assert part in out
    assert err.startswith("kbhub: Written by kbhub, from sentences of the documents.\n")

    vain = "who won the football world cup in brazil"
    code, out, _ = kbhub("ask", vain)
    assert code == 1
    assert out.startswith("These bases probably do not cover this, or use other words.")

    unanswered, found = kbhub("dev", "log", "show", "--json").json["queries"]
    assert (unanswered["text"], unanswered["verdict"]) == (vain, "none")
    assert (found["text"], found["client"]) == (QUESTION, "user")
    assert len(found["hits"]) == len(set(found["hits"])) > 0


def test_nothing_to_search_is_a_failure_that_helps(kbhub, environment, snapshot):
    found = kbhub("search", "crate")
    assert (found.code, found.out) == (1, "")
    assert anonymous(found.err, environment) == snapshot
    assert "kbhub init" in kbhub("ask", "What is a crate?", code=1).err


def test_status_is_short_until_asked_for_more(kbhub, environment, quiet):
    below = environment.project / "a" / "b" / "c" / "d"
    below.mkdir(parents=True)
    (environment.project.parent / "knowledge").mkdir()
    root = ("--root", str(below))
    short, long = kbhub("status", *root, code=0).out, kbhub("status", "--verbose", *root).out
    looked_for = kbhub("status", "--json", *root).json["looked_for"]

    assert len(looked_for) > 20
    assert "No knowledge is active here. Looked in " in short
    assert f"Looked in {len(looked_for)} places; `kbhub status --verbose` lists them." in short
    assert [line for line in short.splitlines() if line.startswith("  ")] == [
        f"  {place}" for place in looked_for if place.endswith(")")
    ]
    assert "Run `kbhub init` to choose or create some." in short
    assert all(f"  {place}\n" in long for place in looked_for)


def test_outside_projects_no_command_is_recommended_that_fails_there(kbhub, environment, monkeypatch):
    monkeypatch.chdir(environment.home)
    assert kbhub("init").code == 2
    for command in (("status",), ("search", "crate"), ("ls",)):
        done = kbhub(*command)
        assert "kbhub init" not in done.out + done.err
        assert "--root DIR" in done.out + done.err


def test_read_prints_the_very_bytes_and_headers_of_several_documents(shop, environment):
    text = f"# ローカル\n\n{HOSTILE}\ttab\n{'x' * 100_000}\n"
    environment.write("knowledge/odd.md", text)
    assert shop("read", "odd.md").out == text
    read = shop("read", "glossary.md:3", "runbooks/rollback.md#Rolling back")
    headers = re.sub(r"#[0-9a-f]{6}", "#<docid>", read.out)
    assert headers == (
        "==> glossary.md:3-3 of 3  #<docid>  Glossary <==\nA crate is a parcel.\n\n"
        f"==> runbooks/rollback.md:1-3 of 3  #<docid>  Rolling back <==\n{ROLLBACK}"
    )


def test_a_mail_is_read_with_its_subject(shop, environment, parsed_here):
    """The subject is its title, not a line of its text, so it is in a header; parts and other documents have none."""
    mail = "Subject: Lost crate\nFrom: Ann <ann@example.org>\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\nWhere is it?\n"
    environment.write("knowledge/lost.eml", mail)
    environment.write("knowledge/no_subject.eml", mail.partition("\n")[2])
    text = "from: Ann <ann@example.org>\ndate: 2026-03-02T10:00:00+00:00\n\nWhere is it?\n"
    docid = shop("ls", "--json", code=0).json["documents"]
    docid = next(one["docid"] for one in docid if one["path"] == "lost.eml")
    assert shop("read", "lost.eml").out == f"==> lost.eml:1-4 of 4  {docid}  Lost crate <==\n{text}"
    assert shop("read", "lost.eml:4").out == "Where is it?\n"
    assert shop("read", "no_subject.eml").out == text
    assert shop("search", "lost crate", "--json").json["hits"][0]["title"] == "Lost crate"


def test_index_reports_what_it_did_and_names_files_that_fail(shop, environment, snapshot):
    first = shop("admin", "index")
    again = shop("admin", "index")
    full = shop("admin", "index", "project", "--full")
    assert {first.code, again.code, full.code} == {0}
    assert anonymous(first.out + again.out + full.out, environment) == snapshot
    for number in range(22):
        (environment.project / "knowledge" / f"loop{number}.md").symlink_to(f"loop{number}.md")
    done = shop("admin", "index", code=0)
    assert re.search(r"(\n  failed loop\d+\.md: .*){20}\n  failed 2 more; see `kbhub status --json`\n$", done.out)


def test_index_takes_every_base_of_the_config_and_one_that_cannot_be_indexed_fails_the_command(shop, environment):
    environment.write(str(environment.home / "a" / "a.md"), "# A\n")
    environment.write(str(environment.home / "b" / "b.txt"), "B\n")
    environment.configure(bases={"a": "~/a", "b": {"knowledge": "~/b", "include": ["*.txt"]}}, repos={"/none": ["b"]})
    reports = shop("admin", "index", "--all-bases", "--json").json["reports"]
    assert [(report["base"], report["added"]) for report in reports] == [("a", 1), ("b", 1)]
    assert [report["base"] for report in shop("admin", "index", "--json").json["reports"]] == ["project"]

    # The others are indexed first, so that a cron job's mail is about the one.
    environment.configure(bases={"gone": "~/gone"}, repos={"*": ["gone"]})
    for arguments in (["index"], ["index", "--all-bases"]):
        done = shop(*arguments)
        assert done.code == 1
        assert f"kbhub: gone: {environment.home / 'gone'} does not exist." in done.err
    assert shop("admin", "index", "--json").json["reports"][0]["base"] == "project"


def test_init_says_what_to_do_next_with_new_knowledge_and_with_what_is_there(kbhub, environment, snapshot):
    done = kbhub("init")

    assert (done.code, done.err) == (0, "")
    assert anonymous(done.out, environment) == snapshot
    assert kbhub("search", "how to write knowledge", "--json").json["hits"][0]["path"] == "how-to-write-knowledge.md"
    again = kbhub("init")
    assert (again.code, again.out) == (0, "")
    assert "nothing had to change" in again.err
    assert kbhub("init", "--json").json["made"] == []

    environment.write(environment.home / "notes" / "a.md", "# Crate\n")
    done = kbhub("init", "--knowledge", str(environment.home / "notes"), code=0)
    assert "how to write knowledge" not in done.out
    assert "\n  kbhub ls project  " in done.out
    assert "a.md" in kbhub("ls", "project", code=0).out


def test_a_foreign_pointer_is_followed_after_trust(kbhub, environment, snapshot):
    environment.write(str(environment.home / "notes" / "a.md"), "# Crate\n")
    environment.write(".kbhub.json", '{"knowledge": "~/notes", "cacheDir": "~/cache"}')
    steps = [
        kbhub("search", "crate"), kbhub("base", "trust"), kbhub("search", "crate", "--json"), kbhub("base", "trust"),
        kbhub("base", "trust", "--writable"), kbhub("base", "trust", "--list"),
        kbhub("base", "trust", "--revoke", ".kbhub.json"), kbhub("base", "trust", "--revoke", "."),
        kbhub("base", "trust", "--list"), kbhub("search", "crate"),
    ]  # fmt: skip
    assert [step.code for step in steps] == [1, 0, 0, 2, 0, 0, 0, 2, 0, 1]
    assert [hit["ref"] for hit in steps[2].json["hits"]] == ["a.md"]
    told = [step.out + step.err for step in steps[1:2] + steps[3:9]]
    assert anonymous("---\n".join(told), environment) == snapshot


def test_a_pointer_is_named_to_who_reads_and_trusted_whatever_the_global_config_says(kbhub, environment):
    for command in ("read", "related"):
        assert "No knowledge is active here" in kbhub(command, "a.md").err
    environment.write(str(environment.home / "notes" / "a.md"), "# Crate\n")
    environment.write(".kbhub.json", '{"knowledge": "~/notes"}')
    assert "run `kbhub base trust" in kbhub("read", "a.md").err
    environment.write(str(environment.home / ".kbhub.json"), '{"bases": 5}')
    assert "bases: expected an object" in kbhub("base", "trust", code=2).err
    assert "notes" in kbhub("base", "trust", ".kbhub.json", code=0).out


SCREEN = 40
"""Lines of a terminal that people keep open beside an editor."""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(kbhub, command, snapshot):
    done = kbhub(*command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.out.count("\n") <= SCREEN
    if "`--help-all`" in done.out:
        whole = kbhub(*command.split(), "--help-all", code=0).out
        assert all(one in whole for one in done.out.splitlines() if not one.endswith(("options`", "`--help-all`")))


def test_the_version_is_printed_and_every_check_of_an_audit_is_in_its_help_and_its_page(kbhub):
    assert kbhub("--version") == (0, f"{kbhub_version}\n", "")
    told = " ".join(kbhub("audit", "--help", code=0).out.split())
    page = (ROOT / "docs/how-to/audit.md").read_text("utf-8").partition("\n## ")[0]
    assert f"Checks: {', '.join(CHECKS)}." in told
    assert re.findall(r"^\| `([a-z-]+)` \| ", page, re.MULTILINE) == list(CHECKS)


WRONG = {
    2: (
        "serch", "--mode keyword search", "--json", "--base=a=b --verbose", "search", "search ' '",
        "search x --mod keyword", "search x --mode fuzzy", "search x -n 0", "search x -n many",
        "search x -n", "search x --recency new", "search x --page 0", "search x --in nowhere",
        "search x --root /does/not/exist", "search x --config /does/not/exist.json", "search x --base notes",
        "search x --base project=/tmp",
        "search x --all -n 3", "search x --full -C 3", "search -x", "read", "read glossary.md --from 99",
        "admin index projct", "admin index project --all-bases", "status extra", "related", "ls notes/../..",
        "ls --csv --json", "gaps --files", "gaps --close nonsense", "dev log show --files",
        "init --knowledge /does/not/exist", "serve --protocol old", "serve --connect --http", "serve --port 1",
        "serve --http --port 1 --socket x", "serve --http --protocol auto",
        "base trust", "base trust /does/not/exist", "base trust --list --writable", "base trust --list --revoke x",
        "base trust --documents --writable",
        "base lst", "base show", "base add", "team publish", "base add --found .", "base add --found --writable",
        "ask", "ask x --json --md", "ask x --in nope", "ask x --threshold 0.5 --direct-threshold 0.1",
        "ask x --written-by sampling", "ask x --budget 3",
        "remember", "remember ' '", "remember - x", "remember x --scope shared", "remember x --about no.md", "recall",
        "forget", "memories import nothing.json", "memories move nothing", "memories inbox 4f1c2a",
        "memories inbox --accept --dismiss all",
        "doc write x", "doc write x --text a -", "doc write glossary --mode update --set novalue",
        "doc write glossary --mode update --set x=null", "doc restore a --list",
        "doc restore --empty-older-than -1", "doc restore --list --empty-older-than 1",
        "audit --sarif --json", "audit --sarif --csv", "audit --sarif --github", "audit --check nope", "audit nope",
        "audit --dry-run", "audit --fail-on nope", "remember --misleading x", "dev rerank x", "dev rerank x gone.md",
    ),
    1: (
        "remember --id nothing1", "forget nothing1", "doc write glossary --text x", "doc write ../x --text x",
        "doc delete none", "doc restore none", "admin index --all-bases",
    ),
}  # fmt: skip
"""Exit code → command lines."""


def test_wrong_usage_and_refusals_are_one_line(shop, environment, snapshot):
    told = {}
    for code, lines in WRONG.items():
        for line in lines:
            done = shop(*shlex.split(line))
            assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), line
            told[line] = anonymous(done.err, environment)
    assert "".join(f"$ kbhub {line}\n{said}" for line, said in told.items()) == snapshot


def test_a_wrong_config_is_named_with_its_field(shop, environment):
    config = environment.configure(search={"limit": "many"})
    for command in (["search", "x"], ["status"], ["admin", "index"], ["read", "x"], ["init"]):
        for arguments in (command, [*command, "--json"]):
            done = shop(*arguments)
            assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
            assert done.err.startswith(f"kbhub: {config}: search.limit: ")
    config.write_text('{\n  "bases": {"a" "b"}\n}')
    assert "line 2, column" in shop("status").err


def test_colours_are_for_terminals_and_any_text_can_be_printed_anywhere(shop, streams, monkeypatch, environment):
    """A terminal has them unless NO_COLOR is set or it is a dumb one, a pipe has not unless FORCE_COLOR is.

    A terminal or locale without Unicode gets escapes, not a traceback.
    """
    assert "\x1b[1;33mcrate\x1b[0m" in streams("search", "crate")
    assert "\x1b" not in streams("search", "crate", NO_COLOR="1")
    assert streams("read", "glossary.md", TERM="dumb") == GLOSSARY
    assert "\x1b" not in shop("search", "crate").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;33mcrate\x1b[0m" in shop("search", "crate").out
    environment.write("knowledge/日本.md", "# ローカル環境\n\n環境の構築 😀\n")
    assert "ローカル環境" in streams("search", "環境", encoding="ascii", terminal=False)
    assert "\\u30ed" in streams("search", "環境", encoding="ascii", NO_COLOR="1")


def test_a_reader_that_goes_away_is_no_error(environment, shop):
    environment.write("knowledge/long.md", "line\n" * 200_000)
    command = [sys.executable, "-m", "kbhub", "read", "long.md"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=environment.project, env=process_env(environment), **pipes) as running:
        assert running.stdout.read(5) == b"line\n"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(30) == PIPE_CLOSED


def test_interrupting_leaves_a_usable_index(shop, streams, monkeypatch):
    """Ctrl-C while indexing: a sentence, exit code 130, and the next run goes on; `test_faults.py` sends the signal."""
    sync = upkeep.sync

    def cut_short(*given, progress, **options):
        def interrupt(*told):
            if progress:
                progress(*told)
            raise KeyboardInterrupt

        return sync(*given, progress=interrupt, **options)

    monkeypatch.setattr("kbhub.cli.app.PATIENCE_SECONDS", 0)
    monkeypatch.setattr("kbhub.sync.sync.BATCH_FILES", 1)
    monkeypatch.setattr(upkeep, "sync", cut_short)
    seen = streams("admin", "index")
    told = ("1/2", "kbhub: Interrupted. The indexes are usable", "Traceback")
    assert [one in seen for one in told] == [True, True, False]
    assert shop("status", "--json", code=0).json["bases"][0]["documents"] == 1
    assert shop("admin", "index", "--json", code=INTERRUPTED).json["interrupted"]
    monkeypatch.setattr(upkeep, "sync", sync)
    report = shop("admin", "index", "--json", code=0).json["reports"][0]
    assert (report["unchanged"], report["added"]) == (2, 0)


def test_who_starts_the_server_by_hand_is_told_what_it_is(streams, monkeypatch):
    monkeypatch.setattr("kbhub.server.stdio.serve", lambda *_, **__: None)
    assert "Waiting for an MCP client" in streams("serve")
    assert "problems" not in streams("status", KBHUB_PROTOCOL="legacy")


COMPLETED = {
    "kbhub sea": ["search"],
    "kbhub base re": ["remove", "rename"],
    "kbhub search --mo": ["--mode"],
    "kbhub search --mode h": ["hybrid"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_what_is_begun(tmp_path):
    file = tmp_path / "kbhub"
    file.write_text(app.generate_completion(prog_name="kbhub", shell="bash"), "utf-8")
    asked = f"source {file}\n" + "".join(
        f'COMP_WORDS=({words}); COMP_CWORD={words.count(" ")}\n_kbhub; echo "${{COMPREPLY[*]}}"\n'
        for words in COMPLETED
    )
    done = ran("bash", "-c", asked)
    assert [sorted(line.split()) for line in done.out.splitlines()] == list(COMPLETED.values()), done.err


def test_the_command_prints_the_script(kbhub, monkeypatch):
    monkeypatch.setattr(type(app), "generate_completion", lambda *_, shell, **__: f"complete {shell}")
    assert kbhub("dev", "completion", "bash") == (0, "complete bash", "")
    made = kbhub("dev", "completion", "fish", "--json").json
    assert (made["shell"], made["script"]) == ("fish", "complete fish")
    assert '"bash", "zsh", "fish", "powershell"' in kbhub("dev", "completion", "tcsh", code=2).err


SCRIPT = """\
import json, os, re, sys
from kbhub.__main__ import main
for lines, heavy in json.loads(sys.argv[1]):
    sys.stdout.flush()
    if not os.fork():
        if not lines:
            import kbhub.server.daemon.proxy
        codes = [main(line) for line in lines]
        print("\\n" + json.dumps([codes, [name for name in sys.modules if re.fullmatch(heavy, name)]]), flush=True)
        os._exit(0)
    os.wait()
"""
"""Runs command lines, or what a window loads, in forks of a process that has loaded nothing yet."""

ALONE = {
    ("base list --csv", "memories --csv"): (r"kbhub\.cli\.commands\.(?!bases|memories).*", '"id","path"'),
    ("", "--help", "--version", "base lst", "serch"): (
        r"apsw|numpy|pydantic|mcp|model2vec|kbhub\.cli\.commands\..*", "Search the Markdown knowledge",
    ),
    ("search crate --limit 3",): (
        r"mcp|pydantic\.main|starlette|httpx|watchfiles|pypdf|yaml|kbhub\.documents\.markdown", "crates.md",
    ),
    ("remember Releases need the VPN.",): (r"tokenizers|tomlkit|kbhub\.(hooks|setup|server)\..*", "Remembered"),
    (): (r"(mcp|pydantic|asyncio|anyio|numpy|apsw|cyclopts|rich|filelock|logging|ssl)\b.*", ""),
    ("read crates.md",): (r"rich|numpy|tomlkit|kbhub\.(answers|setup)\..*", "A crate holds bottles."),
}  # fmt: skip
"""Command lines → what they do not load, and a part of what they print."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="loads as elsewhere")
def test_a_command_loads_only_what_it_needs(environment):
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.configure(search={"limit": 4}, docsFallback=False)
    environment.hub().sync()
    cases = [([shlex.split(line) for line in lines], heavy) for lines, (heavy, _) in ALONE.items()]
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src")}
    done = ran(sys.executable, "-c", SCRIPT, json.dumps(cases), env=env, cwd=environment.project)
    found = [json.loads(line) for line in done.out.splitlines() if line.startswith("[[")]
    codes = [[2 if line in ("base lst", "serch") else 0 for line in lines] for lines in ALONE]
    assert found == [[each, []] for each in codes], done.err
    assert [said for _, said in ALONE.values() if said not in done.out] == []
