"""What requests may cost, one or many at once: each is answered, what is read of long ones bounded, memory small."""

import os
import random
import signal
import sys
import threading
import traceback
from functools import partial
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import apsw
import pytest

from conftest import make_environment, synced
from daemons import call, text_of, until, windows
from kbhub.answers.question import ask
from kbhub.editing.audit import audit
from kbhub.editing.documents import write_document
from kbhub.editing.renames import rename
from kbhub.editing.trash import delete_document
from kbhub.errors import KbhubError, UsageError
from kbhub.index.query.parser import MAX_CHARACTERS, parse_query
from kbhub.index.references import LONGEST_REF
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import LONGEST_NAME, MOST_NAMES, related, tags
from kbhub.server.frames import FRAME_BYTES
from kbhub.server.tools.documents import MOST_FRONT_MATTER_BYTES, MOST_TEXT_BYTES
from kbhub.types import Query
from test_daemon import furnish
from test_stdio import LIST, SERVE

MOST_MIB = 150
"""Above what the server takes while nothing is asked."""

ROOM = 4_000
"""Bytes of a frame that the longest parameter leaves."""

FLOOD = 200
"""Searches that a client sends before it reads an answer."""

HUGE = 5 << 20
"""Bytes of a line."""


def distinct_words(characters):
    """Give that many characters of words of which none is like another."""
    words = map("".join, product(ascii_lowercase, repeat=7))
    return " ".join(islice(words, characters // 8))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project with one document and an index."""
    return furnish(make_environment(tmp_path_factory.mktemp("memory")), "canary")


@pytest.fixture(scope="module")
def window(place):
    """A server with every tool that has loaded what it needs; MiniLM, which it would load when idle, is left out.

    It has to bear all of it, and to end in order after it, in a search and within a huge message.
    """
    with windows(place) as begin:
        started = begin(("-m", "kbhub", "serve"), KBHUB_TOOLS="all", KBHUB_SEARCH__SECOND_LOOK="false")
        started.handshake()
        for name, arguments in (
            ("search", {"query": "canary deploy"}),
            ("ask", {"question": "how long does the canary take"}),
            ("related", {"ref": "deploy.md"}),
            ("write_document", {"ref": "first.md", "text": "# First\n\nThe albatross.\n"}),
        ):
            assert not started.ask(call(name, **arguments))["result"].get("isError"), name
        yield started
        started.begin(call("search", query="canary"))
        started.process.stdin.write(b'{"jsonrpc": "2.0", "id": 7, "meth' + b"x" * HUGE)
        assert started.end() == 0
        assert all(message["jsonrpc"] == "2.0" for message in started.rest())
        assert started.errors == b""


def test_a_flood_of_searches_is_answered_and_cancelled_calls_leave_nothing_behind(window):
    """Cancelled at once, twice, too late or never begun: the next call is answered."""
    asked = [window.begin(call("search", query=f"canary {number}")) for number in range(FLOOD)]
    assert all("1. deploy.md:1-3" in text_of(window.answer(number)) for number in asked)
    for _ in range(50):
        asked = window.begin(call("search", query="canary"))
        for request in (asked, asked, asked - 1, 10_000_000, "no number"):
            window.send({"method": "notifications/cancelled", "params": {"requestId": request, "reason": "no"}})
    assert "result" in window.ask(LIST)
    assert "1. deploy.md:1-3" in text_of(window.ask(call("search", query="canary")))


def test_of_a_long_query_the_beginning_is_read_a_long_list_of_refs_whole_and_too_long_tags_refused(place):
    text = "canary " + distinct_words(MAX_CHARACTERS * 3)
    query, hub = parse_query(text), place.hub()
    unread = f"{query.unread:,}"

    assert query.terms[0].text == "canary"
    assert query.unread == len(text) - len(query.text) - 1
    assert text[len(query.text)] == " "
    assert any(unread in note and "characters were used" in note for note in hub.search(text).notes)
    assert any(unread in note for note in ask(hub, text).notes)
    for character in ("x", "é", "漢", " ", "\n", '"', "-"):
        query = parse_query(character * (MAX_CHARACTERS + 7))
        assert query.unread in (7, MAX_CHARACTERS + 7)
        assert len(query.text) <= MAX_CHARACTERS
    assert parse_query(("canary " * MAX_CHARACTERS)[:MAX_CHARACTERS]).unread == 0

    hub = place.hub()
    result = hub.read(", ".join(["deploy.md"] * (LONGEST_REF // 8)))
    assert [one.ref for one in result.readings] == ["deploy.md"]
    with pytest.raises(UsageError, match=f"at most {MOST_NAMES} tags"):
        tags(hub, ["x"] * (MOST_NAMES + 1))
    with pytest.raises(UsageError, match=f"at most {LONGEST_NAME} characters"):
        tags(hub, ["*" * (LONGEST_NAME + 1)])


@pytest.mark.parametrize("text", ["null", "[1, 2]", '{"a": 1}', '["x"]', "true", "5", '"x"'])
def test_a_text_that_is_json_stays_a_text(window, place, text):
    written = window.ask(call("write_document", ref="json.md", text=text, mode="create"))
    stored = place.project / "knowledge" / "json.md"
    assert not written["result"].get("isError"), written
    assert stored.read_text().rstrip().endswith(text)
    stored.unlink()


def test_lists_and_objects_may_come_as_strings_and_what_is_too_long_is_refused_and_not_cut(window, place):
    asked = {"query": "canary", "bases": '["project"]'}
    read = text_of(window.ask(call("read", refs='["deploy.md", "first.md"]')))
    found = window.ask(call("search", **asked, options='{"full": true}', cursor="null"))
    assert ("canary" in read, "albatross" in read) == (True, True)
    assert "1. deploy.md" in text_of(window.ask(call("search", **asked, options="null")))
    assert found["result"]["isError"]  # `cursor` is a text, and none that was given

    before = sorted(path.name for path in (place.project / "knowledge").iterdir())
    for asked in (
        {"ref": "long.md", "text": "x" * (MOST_TEXT_BYTES + 1)},
        {"ref": "deploy.md", "text": "é" * (MOST_TEXT_BYTES // 2 + 1), "mode": "append"},
        {"ref": "long.md", "text": "x", "front_matter": {"a": "x" * MOST_FRONT_MATTER_BYTES}},
    ):
        answer = window.ask(call("write_document", **asked))["result"]
        assert answer["isError"]
        assert "Nothing was written" in answer["content"][0]["text"]
    assert sorted(path.name for path in (place.project / "knowledge").iterdir()) == before
    assert "x" * 10 not in (place.project / "knowledge" / "deploy.md").read_text()


def peak_and_now(pid):
    """Give the most that a process took since that was last forgotten, and what it takes now, in MiB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return [int(status[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS")]


def frames_of(size):
    words, letters = distinct_words(size), "x" * size
    return {
        "search words": call("search", query=words),
        "search a phrase": call("search", query=f'"{words}"'),
        "search by meaning": call("search", query="canary " + words, mode="semantic"),
        "search exclusions": call("search", query="-" + words.replace(" ", " -")[: size - 1]),
        "search wide characters": call("search", query="漢字" * (size // 12)),
        "search other wordings": call("search", query="canary", options={"queries": [words], "hyde": "canary"}),
        "ask": call("ask", question="canary " + words),
        "read a pattern": call("read", refs="*" * size),
        "read folders": call("read", refs="a/" * (size // 2)),
        "related": call("related", ref=letters),
        "tags": call("tags", names=[letters]),
        "memories": call("memories", query=words),
        "remember": call("remember", text=words),
        "an unknown tool": call(letters),
        "an unknown parameter": call("search", **{letters: 1}),
        "an unknown method": {"method": letters},
        "an address": {"method": "resources/read", "params": {"uri": f"kbhub://project/{letters}"}},
        "values": call("search", query=[{} for _ in range(45_000)]),
        "JSON in a string": call("search", query="canary", bases="[" + "[]," * (size // 3) + "0]"),
        "a document": call("write_document", ref="long.md", text=words),
        "a document that a call may write": call("write_document", ref="fits.md", text=words[:MOST_TEXT_BYTES]),
        "an appendix": call("write_document", ref="first.md", text=words[:MOST_TEXT_BYTES], mode="append"),
        "front matter": call("write_document", ref="front.md", text="x", front_matter={"a": words}),
        "a long new path": call("write_document", ref="a/" * (size // 2) + "b.md", text="x"),
    }


QUICK = ("search words", "an unknown parameter", "JSON in a string")
"""One of each way that a frame is refused or read in part; the others take long and are `slow`."""

KINDS = [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in frames_of(80)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of memory")
@pytest.mark.parametrize("kind", KINDS)
def test_no_request_takes_much_memory(window, kind):
    size = FRAME_BYTES - ROOM
    asked = frames_of(size // 2 if kind == "search exclusions" else size)[kind]
    pid = window.process.pid
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    _, idle = peak_and_now(pid)
    answer = window.ask(asked)
    peak, _ = peak_and_now(pid)
    assert "result" in answer or answer["error"]["code"] in (-32601, -32602, -32600)
    assert peak - idle <= MOST_MIB
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))


THREADS, ACTS = 6, 25
SECONDS = 100
"""After which a thread is stuck; generous, for a busy machine."""


def test_whatever_threads_do_at_once_each_is_answered(environment):
    for number in range(60):
        link = f"[[n{(number + 1) % 60}]]"
        text = f"---\ntags: [t{number % 7}]\n---\n# Note {number}\n\nalpha beta {number} deploy {link}\n"
        environment.write(f"knowledge/n{number}.md", text)
    hub = synced(environment)
    wrong = []

    def act(choose):
        number, other = choose.randrange(20), choose.randrange(20)
        text = f"# W {number}\n\nalpha [[n{number}]] {other}\n"
        return choose.choice(
            [
                partial(hub.search, Query(text=choose.choice(["alpha deploy", "beta tag:t3", "remembered odd"]))),
                partial(hub.search, Query(text=f"note {number}", mode="semantic")),
                partial(hub.read, f"n{number}.md"),
                partial(hub.status),
                partial(hub.sync),
                partial(related, hub, f"n{number}.md"),
                partial(tags, hub),
                partial(audit, hub),
                partial(list_documents, hub),
                partial(remember, hub, f"It is to be remembered that {number} is odd, and {other} is not."),
                lambda: forget(hub, [one.id for one in memories(hub).memories[:1]]),
                partial(write_document, hub, f"w{number}.md", text=text, mode=choose.choice(["create", "append"])),
                partial(delete_document, hub, f"w{number}.md"),
                partial(rename, hub, f"w{number}.md", f"w{other}.md", update_links=True),
            ]
        )

    def work(seed):
        choose = random.Random(seed)
        for _ in range(ACTS):
            try:
                act(choose)()
            except KbhubError:
                pass
            except Exception:  # noqa: BLE001 - that is what is looked for
                wrong.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    hub.sync()
    assert hub.search("note 7 alpha deploy").hits


def documents(window):
    """How many documents the server says its project base has."""
    line = next(line for line in text_of(window.ask(call("status"))).splitlines() if line.startswith("- project"))
    return int(line.split(" · ")[2].split(" ")[0])


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_servers_that_start_together_index_once(environment, count):
    for number in range(150):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\nabout zebra{number} and {'words ' * 50}\n")
    environment.write("knowledge/last.md", "# Giraffe\n")
    with windows(environment) as begin:
        opened = [begin(SERVE) for _ in range(count)]
        for window in opened:
            window.handshake()
        asked = [window.begin(LIST) for window in opened]  # nobody's answer is read before everybody has asked
        for window, number in zip(opened, asked, strict=True):
            assert "result" in window.answer(number)
        for window in opened:
            until(lambda window=window: documents(window) == 151)
            assert "last.md" in text_of(window.ask(call("search", query="giraffe")))
        assert [window.end() for window in opened] == [0] * count

    hub = environment.hub()
    connection = apsw.Connection(str(hub.index(hub.select()[0]).path))
    assert connection.execute("SELECT count(*), max(id) FROM chunk").fetchone() == (151, 151)
    assert connection.execute("PRAGMA quick_check").get == "ok"
    connection.close()


def test_a_server_takes_over_when_the_process_that_indexes_is_killed(environment, children):
    """The rest is indexed by who is left, without being asked."""
    for number in range(40):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\nAbout zebra{number}.\n")
    (base,) = (hub := environment.hub()).select()
    child = children.start("index_until", base.path, hub.index(base).path, "outside", 0)
    assert children.line() == "change"
    os.kill(child, signal.SIGSTOP)
    with windows(environment) as begin:
        window = begin(SERVE)
        window.handshake()
        window.ask(LIST)
        os.kill(child, signal.SIGKILL)
        assert children.ended() == -signal.SIGKILL
        until(lambda: documents(window) == 40)
        assert window.end() == 0
