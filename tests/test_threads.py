"""Whatever agents do at the same time, in threads of one hub or in several windows: each is answered, one indexes."""

import random
import threading
import traceback
from functools import partial

import apsw
import pytest

from conftest import synced
from daemons import call, text_of, until, windows
from kbhub.editing.audit import audit
from kbhub.editing.documents import write_document
from kbhub.editing.renames import rename
from kbhub.editing.trash import delete_document
from kbhub.errors import KbhubError
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import related, tags
from kbhub.types import Query
from test_stdio import LIST, SERVE

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


def test_a_server_takes_over_when_the_one_that_indexes_is_killed(environment):
    """The rest is indexed by who is left, without being asked."""
    for number in range(400):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\n{'words of many kinds ' * 60}\n")
    with windows(environment) as begin:
        first, second = begin(SERVE), begin(SERVE)
        for window in (first, second):
            window.handshake()
            window.ask(LIST)
        first.process.kill()
        until(lambda: documents(second) == 400)
        assert second.end() == 0
