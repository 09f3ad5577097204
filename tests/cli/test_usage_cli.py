"""The commands about queries, gaps and memories do what they say, in words, streams and exit codes."""

import json
import re
import time
from functools import partial

import pytest

from conftest import Clock
from kbhub.reading.reports import Gap, QuerySummary
from kbhub.render.memories import maintained_lines, summary_lines
from kbhub.types import Query
from kbhub.usage.gaps import Maintained
from kbhub.usage.log import flush, record

HOUR = 3600.0
COFFEE = "who pays for the coffee machine"
RULE = (
    "A question becomes a gap after 5 times, in any words, if more than half of its answers had the verdict "
    "`none`. Repeats by a client within 5 minutes count once."
)


@pytest.fixture
def kbhub(kbhub, environment):
    """Runs a command in this process, in a project with a document, as a user who types nothing."""
    environment.write("knowledge/cache.md", "# Cache\n\nSessions are kept for an hour.\n")
    return partial(kbhub, stdin=b"")


def ask_often(environment, text):
    """Ask five times, an hour apart, until now."""
    hub = environment.hub(clock=Clock(time.time()))
    hub.sync()
    for hours in range(5):
        hub.options.clock.now = time.time() - hours * HOUR
        query = Query(text=text)
        record(hub, hub.search(query), query)
    flush()


def test_what_was_asked_and_read_is_shown_and_cleared(kbhub):
    assert kbhub("dev", "log", "show") == (0, "", "kbhub: No queries logged yet.\n")
    kbhub("search", "how long are sessions kept")
    kbhub("search", "zebras")
    kbhub("read", "cache.md:1:2")
    code, out, err = kbhub("dev", "log", "show")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        r"just now  none    user  zebras\njust now  (strong|weak  )  user  how long are sessions kept\n    read .*\n",
        out,
    )
    shown = kbhub("dev", "log", "show", "--json", "-n", "1").json
    assert (shown["total"], [one["text"] for one in shown["queries"]]) == (2, ["zebras"])
    assert kbhub("dev", "log", "show", "--csv")[1].startswith('"asked","verdict","score",')
    assert kbhub("dev", "log", "clear") == (0, "Deleted 2 queries from the log, and their gaps.\n", "")
    assert json.loads(kbhub("dev", "log", "clear", "--all", "--json")[1])["queries"] == 0


def test_unanswered_questions_are_shown_before_they_are_gaps(kbhub, environment):
    for query in (COFFEE, "who pays for zebras", "zebras in the office", COFFEE, COFFEE):
        kbhub("search", query)
    _, out, err = kbhub("gaps")
    assert re.search(
        rf"^{COFFEE}  \(not a gap yet\)\n    asked 1 time, last just now, by user; a gap after 4 more$", out, re.M
    )
    assert "zebras in the office  (not a gap yet)" in out
    assert err == f"kbhub: No gaps yet.\nkbhub: {RULE}\n"
    assert {(one["question"], one["needed"]) for one in kbhub("gaps", "--json").json["unanswered"]} >= {(COFFEE, 4)}
    assert '"not yet"' in kbhub("gaps", "--csv").out
    environment.write("knowledge/coffee.md", "# Who pays for the coffee machine\n\nThe office pays for it.\n")
    assert COFFEE not in kbhub("gaps").out


def test_gaps_are_found_listed_and_closed(kbhub, environment):
    assert kbhub("gaps") == (0, "", f"kbhub: No gaps: no repeated question lacks an answer here.\nkbhub: {RULE}\n")
    ask_often(environment, COFFEE)
    code, out, err = kbhub("gaps")
    assert (code, err) == (0, f"kbhub: New gap: {COFFEE}\nkbhub: {RULE}\n")
    name = re.fullmatch(rf"{COFFEE}  \[(\w{{8}})\]\n    asked 5 times, last just now, by user\n", out)[1]
    assert json.loads(kbhub("gaps", "--json")[1])["gaps"][0]["id"] == name
    code, out, _ = kbhub("gaps", "--close", name)
    assert code == 0
    assert "    closed just now" in out
    assert kbhub("gaps")[1] == ""
    assert name in kbhub("gaps", "--all")[1]


def test_index_looks_after_the_log(kbhub, environment):
    ask_often(environment, COFFEE)
    assert f"New gap: {COFFEE}" in kbhub("admin", "index")[2]
    assert "gap" not in kbhub("admin", "index")[2]


def test_a_log_that_cannot_be_used_is_said_once(kbhub, bound, closed, environment):
    kbhub("search", "how long are sessions kept")
    kbhub("dev", "log", "show")  # which writes what was noted
    folder = environment.home.parent / "data/queries"
    closed(folder, 0o500)
    done = bound("admin", "index")
    assert (done.code, "unchanged" in done.out) == (0, True)
    (said,) = done.err.splitlines()
    assert re.search("Cannot use the query log .*: Permission denied", said)

    folder.chmod(0o700)
    for file in folder.iterdir():
        file.unlink()
        file.mkdir()
    code, _, err = kbhub("dev", "log", "show")
    assert (code, err.count("\n"), err.count("Cannot use the query log")) == (1, 1, 1)
    code, _, err = kbhub("status")
    assert (code, err) == (0, "")


def test_switched_off_it_says_so(kbhub, monkeypatch):
    monkeypatch.setenv("KBHUB_LOG__QUERIES", "off")
    kbhub("search", COFFEE)
    assert kbhub("dev", "log", "show") == (0, "", "kbhub: The query log is off: `log.queries` is false.\n")
    assert kbhub("gaps") == (0, "", "kbhub: The query log is off: `log.queries` is false.\n")


def test_search_is_measured_on_what_was_asked(kbhub):
    code, _, err = kbhub("dev", "eval", "--log")
    assert code == 2
    assert "has no query whose document was read" in err
    kbhub("search", "how long are sessions kept")
    kbhub("read", "cache.md")
    code, out, _ = kbhub("dev", "eval", "--log", "--mode", "keyword", "--json")
    (dataset,) = json.loads(out)["datasets"]
    assert code == 0
    assert (dataset["name"], dataset["documents"]) == ("log", 1)
    assert dataset["runs"][0]["overall"]["hit1"] == 1


def test_status_has_lines_about_queries_and_gaps_and_each_change_of_maintenance_is_a_line():
    gap = Gap(id="abcdefgh", question="why\nnot", count=7, last_asked="2027-01-15", since="2027-01-15")
    assert summary_lines(QuerySummary(logged=True)) == ["0 queries in the last hour"]
    assert summary_lines(QuerySummary(logged=False)) == ["not logged (`log.queries` is false)"]
    lines = summary_lines(QuerySummary(logged=True, asked=3, strong=1, none=2, gaps=1, top_gaps=(gap,)))
    assert lines[:2] == ["3 queries in the last hour: 1 strong, 2 none", "1 open gap; list them with `kbhub gaps`"]
    assert lines[2].startswith("  7 × why")
    assert "\n" not in lines[2]
    done = Maintained(ran=True, opened=("a",), reopened=("b",), answered=("c", "d"))
    assert [line.rpartition(": ")[2] for line in maintained_lines(done)] == ["a", "b", "c", "d"]
    assert maintained_lines(Maintained()) == []


def test_remember_recall_and_forget_and_export_and_import_through_a_pipe(kbhub):
    code, out, err = kbhub("remember", "--tag", "deploy", "Releases", "need the VPN")
    assert (code, err) == (0, "")
    assert out.startswith("Remembered: memory@releases-need-the-vpn-")
    name = re.search(r"  id (\w{8})  ", out)[1]

    assert kbhub("recall", "vpn")[1].endswith("  │ Releases need the VPN\n")
    assert name in kbhub("memories", "--tag", "deploy")[1]
    kbhub("search", "vpn")
    assert kbhub("read", name, code=0).out == kbhub("read", out.split()[1], code=0).out
    assert [one["uses"] for one in kbhub("memories", "--json", code=0).json["memories"]] == [2]  # by whoever reads it
    assert kbhub("remember", "--id", name)[1].startswith("Confirmed: ")
    assert kbhub("remember", "Releases need the VPN")[1].startswith("Already known, strengthened: ")
    code, out, _ = kbhub("forget", name)
    assert (code, out.startswith("Forgot 1 memory:\n")) == (0, True)
    assert "Kept for 30 days; `kbhub memories restore ID` restores one." in out
    assert kbhub("recall", "vpn")[0] == 1

    kbhub("remember", "Cats sleep", "--scope", "user")
    out = kbhub("memories", "export")[1]
    kbhub("forget", "--all", "--scope", "user")
    code, said, _ = kbhub("memories", "import", "-", stdin=out.encode())
    assert (code, said) == (0, "Imported 1 memory (kbhub); 0 already known.\n")
    assert "Cats sleep" in kbhub("memories", "--scope", "user")[1]


def test_a_text_from_standard_input_is_remembered_whole_or_not_at_all(kbhub, environment):
    said = (2, "", "kbhub: Standard input is not UTF-8 (byte 3). Convert it first.\n")
    assert kbhub("remember", "-", stdin=b"caf\xe9") == said
    assert kbhub("memories", "import", "-", stdin=b"caf\xe9") == said
    for given in (("caf\udce9",), ("tea", "--tag", "caf\udce9"), ("tea", "--from", "caf\udce9")):
        assert kbhub("remember", *given) == (2, "", "kbhub: 'caf\\udce9' is not UTF-8. Convert it first.\n")
    file = environment.write(environment.home / "export.json", b'{"caf\xe9": 1}')
    code, _, err = kbhub("memories", "import", str(file))
    assert (code, err) == (2, f"kbhub: {file} is not UTF-8 (byte 5). Convert it first.\n")
    code, _, err = kbhub("remember", "-", stdin=b"a" * 99_990 + b" " * 20 + b"b")
    assert (code, err) == (2, "kbhub: Standard input is longer than the 100000 bytes allowed for a memory.\n")
    assert kbhub("memories").out == ""
    done = kbhub("remember", "-", "--json", stdin="Größe zählt.\n\nSecond.\n".encode(), code=0)
    assert done.json["memory"]["text"] == "Größe zählt.\n\nSecond."
