"""What a search answers while the first index of its project is being made, by this process or by another one."""

import threading
from contextlib import contextmanager

import pytest
from filelock import FileLock
from mcp import Client

import kbhub.server.calls
import kbhub.sync.freshness
import kbhub.sync.sync
import kbhub.sync.unindexed
from daemons import PATIENCE
from kbhub.server.server import KbhubServer
from kbhub.sync.freshness import Patience
from kbhub.types import Query

FILES = 300
CLAIMS = ("No hits", "No document contains", "nothing in these bases")


@pytest.fixture
def cold(environment):
    """A project without an index; only the last of its files has the answer."""
    for number in range(FILES):
        environment.write(f"knowledge/n{number:04}.md", f"# Note {number}\n\nThe deploy of service {number}.\n")
    environment.write(
        f"knowledge/n{FILES - 1:04}.md", "# Tuning\n\nThe Xylophone takes five minutes to tune; a canary listens.\n"
    )
    return environment


def lock_of(hub):
    """Return the path of the lock of a project's index."""
    path = hub.index(hub.select(["project"])[0]).path
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"{path}.lock"


@contextmanager
def indexing(environment, go_on):
    """Let another process, which this one is to a server, make the first index, batch after batch as `go_on` says."""
    begun = threading.Event()

    def next_batch(_base, done, todo):
        begun.set()
        assert done == todo or go_on.wait(PATIENCE)

    thread = threading.Thread(target=environment.hub().sync, kwargs={"progress": next_batch})
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield
    finally:
        go_on.set()
        thread.join()


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_a_search_waits_for_the_first_index_that_another_process_makes(cold, mode, monkeypatch):
    """It reports how far that process is, and then answers from all files."""
    monkeypatch.setattr(kbhub.server.calls, "PROGRESS_SECONDS", 0.005)
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 20)
    go_on, heard = threading.Event(), []

    async def progress(done, total, _message):
        heard.append((done, total))
        go_on.set()

    with indexing(cold, go_on):
        async with Client(KbhubServer(cold.hub()), mode=mode) as client:
            found = await client.call_tool("search", {"query": "tune the xylophone"}, progress_callback=progress)

    text = found.content[0].text
    assert f"1. n{FILES - 1:04}.md" in text
    assert "being indexed" not in text
    assert 0 < heard[0][0] < FILES
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert {total for _, total in heard} == {FILES}


@pytest.mark.anyio
async def test_a_first_index_that_gets_no_nearer_is_replaced_by_a_scan(cold, mode, monkeypatch):
    """The answer is found in the files themselves, and what is not found is said to be absent by no verb."""
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    cold.env["KBHUB_TOOLS"] = "all"
    hub = cold.hub()
    with FileLock(lock_of(hub)):
        async with Client(KbhubServer(hub), mode=mode) as client:

            async def told(tool, **arguments):
                return (await client.call_tool(tool, arguments)).content[0].text

            found = await told("search", query="Do canaries tune xylophones?")
            searched = await told("search", query="glockenspiel")
            asked = await told("ask", question="glockenspiel")
            tagged = await told("tags", names="glockenspiel")
            assert "not indexed yet" in await told("status")
            assert "takes five minutes" in await told("read", refs=f"n{FILES - 1:04}.md")

    assert f"1. n{FILES - 1:04}.md" in found
    assert "takes five minutes" in found
    assert f"project is still being indexed (0 of {FILES} files). The others were only scanned" in found
    assert f'which found "n{FILES - 1:04}.md".' in found
    for text in (found, searched, asked, tagged):
        assert not [claim for claim in CLAIMS if claim in text]
        assert "still being indexed" in text
    assert searched.startswith("Nothing found yet")
    assert asked.startswith("Nothing found yet")


def test_the_command_line_waits_for_another_process_too(cold, kbhub, monkeypatch):
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    with FileLock(lock_of(cold.hub())):
        found = kbhub("search", "tune the xylophone", "--json", code=0).json
        absent = kbhub("search", "glockenspiel", code=0)
        asked = kbhub("ask", "glockenspiel")

    assert (found["hits"][0]["path"], found["verdict"], found["unmatched"]) == (f"n{FILES - 1:04}.md", None, [])
    assert "Nothing found yet. Searched: project." in absent.err
    assert f"project is still being indexed (0 of {FILES} files)" in absent.err
    assert "Nothing found yet" in asked.out
    assert not [claim for claim in CLAIMS if claim in absent.err + asked.out + asked.err]


def test_what_is_indexed_and_what_is_not_yet_are_ranked_together(cold):
    hub, found = cold.hub(), {}

    def look(_base, done, _todo):
        found.setdefault(done, hub.search(Query(text="service 3 xylophone", limit=100, granularity="chunk")))

    hub.sync(progress=look)
    partial = found[min(found)]

    refs = [hit.ref for hit in partial.hits]
    assert {"n0003.md", f"n{FILES - 1:04}.md"} <= set(refs)
    assert len(refs) == len(set(refs))
    assert partial.searched == ("project",)
    assert partial.verdict is None


def test_a_scan_keeps_to_its_limits_and_says_how_far_it_came(cold, monkeypatch):
    cold.write("knowledge/xylophone.pdf", b"%PDF-1.4 xylophone")
    monkeypatch.setattr(kbhub.sync.unindexed, "SCAN_BYTES", 10_000)
    hub = cold.hub()
    with FileLock(lock_of(hub)):
        hub.freshen()
        first, filtered, none = (
            hub.search(text) for text in ("service 3", "service 3 path:elsewhere/", "xylophone -deploy")
        )

    (note,) = first.notes
    assert first.hits[0].ref == "n0003.md"
    assert 0 < int(note.split("files). ")[1].split()[0]) < FILES
    assert "of the others were only scanned" in note
    assert filtered.hits == none.hits == ()
    assert not any("No document" in text for text in filtered.notes)


def test_patience_ends_where_nothing_gets_nearer():
    patience = Patience(kbhub.sync.freshness.STALLED_SECONDS * 2)
    stalled = patience.left(0)

    assert 0 < stalled <= kbhub.sync.freshness.STALLED_SECONDS
    assert patience.left(1) >= stalled
    assert Patience(0).left(1) <= 0
