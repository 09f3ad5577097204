"""One hub, many threads: whatever agents ask for at the same time, each gets an answer or an error that says why."""

import random
import threading
import traceback
from functools import partial

from conftest import synced
from kbhub.editing import delete_document, rename, write_document
from kbhub.editing.audit import audit
from kbhub.errors import KbhubError
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import related, tags
from kbhub.types import Query

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
