"""What was tried, and not taken, warns who is about to try it again; what misled is set back until it is confirmed."""

import re

import pytest
from mcp import Client

from hook_events import edit, event
from kbhub.errors import UsageError
from kbhub.hooks.delivery import deliver
from kbhub.memory.changes import forget, remember
from kbhub.memory.lists import memories
from kbhub.memory.transfer import export, import_
from kbhub.server.server import KbhubServer
from kbhub.types import Query

TRIED = "Running the tests in parallel with pytest-xdist was slower, because the fixtures share one port."
FACT = "The tests run in parallel with pytest-xdist."
QUESTION = "run the tests in parallel with pytest-xdist"
MARK = "tried, and not taken"


def search(hub, text=QUESTION):
    hub.sync()
    return hub.search(Query(text=text)).hits


def said(hub, what):
    found = deliver(hub, what)
    return found.text if found else ""


def test_a_rejected_way_is_found_first_and_marked_and_not_outdated(environment, hub):
    environment.write("knowledge/build.md", "# Build\n\nThe build takes long.\n")
    one = remember(hub, TRIED, rejected=True).memory
    (file,) = environment.memories()
    assert "\nstatus: rejected\n" in file.read_text()
    hit = search(hub)[0]
    assert (hit.ref, hit.rejected, hit.outdated, hit.stale) == (one.ref, True, None, False)
    assert memories(hub).memories[0].rejected
    plain = remember(hub, "The tests need Docker.").memory
    assert not plain.rejected
    assert [hit.rejected for hit in search(hub, "tests need docker") if hit.ref == plain.ref] == [False]


def test_the_status_of_another_document_says_nothing(environment, hub):
    environment.write("knowledge/adr/1.md", "---\nstatus: rejected\n---\n# Use xdist for tests\n\nWe could.\n")
    assert [hit.rejected for hit in search(hub, "xdist for tests")] == [False]


@pytest.mark.parametrize("rejected", [(True, False), (False, True), (False, False)])
def test_likeness_replaces_neither_the_fact_nor_the_rejected_way(hub, clock, rejected):
    """But of two facts, it does the older one; and what somebody says replaces either."""
    first, later = (TRIED, FACT) if rejected[0] else (FACT, TRIED)
    old = remember(hub, first, rejected=rejected[0])
    clock.pass_days(1)
    new = remember(hub, later, rejected=rejected[1])
    assert new.did == "stored"
    assert [(one.id, one.rejected) for one in new.near] == [(old.memory.id, rejected[0])]
    assert new.memory.may_supersede == (() if any(rejected) else (old.memory.id,))
    assert not any(rejected) or [hit.outdated for hit in search(hub)] == [None, None]
    said = remember(hub, "Since pytest 9, they run in parallel with pytest-xdist.", supersedes=[old.memory.id]).memory
    assert {hit.ref: hit.outdated for hit in search(hub)}[old.memory.ref] == f"superseded by {said.id}"


def test_a_rejected_way_in_the_words_of_a_fact_is_another_memory(environment, hub):
    fact = remember(hub, FACT).memory
    tried = remember(hub, FACT, rejected=True)
    again = remember(hub, FACT, rejected=True)
    reworded = remember(hub, "In parallel, the tests run with pytest-xdist.")
    assert (tried.did, tried.near[0].id) == ("stored", fact.id)
    assert (again.did, again.memory.id) == ("strengthened", tried.memory.id)
    assert (reworded.did, reworded.memory.id) == ("strengthened", fact.id)
    assert len(environment.memories()) == 2
    assert {hit.ref: hit.rejected for hit in search(hub)} == {fact.ref: False, tried.memory.ref: True}


def test_a_fact_can_be_rejected_and_taken_back(environment, hub, clock):
    old = remember(hub, "The tests run one by one.").memory
    clock.pass_days(1)
    one = remember(hub, "The tests now run in parallel.").memory
    assert one.may_supersede == (old.id,)
    turned = remember(hub, id=one.id, rejected=True)
    assert (turned.did, turned.memory.rejected, turned.memory.may_supersede) == ("updated", True, ())
    assert remember(hub, id=one.id).memory.rejected
    assert remember(hub, "The tests now run in parallel, badly.", id=one.id).memory.rejected
    assert not remember(hub, id=one.id, rejected=False).memory.rejected
    assert "status" not in environment.memories()[1].read_text()


def test_an_export_keeps_what_was_rejected_and_what_misled(hub, environment, tmp_path):
    one = remember(hub, TRIED, rejected=True).memory
    remember(hub, id=one.id, misleading=True)
    remember(hub, FACT)
    exported = export(hub).model_dump_json()
    forget(hub, everything=True)
    assert import_(hub, exported, scope="user").added == 2  # where it is told to go
    assert import_(hub, exported, scope="user").known == 2
    found = {memory.text: (memory.rejected, memory.misleading, memory.scope) for memory in memories(hub).memories}
    assert found == {TRIED: (True, 1, "user"), FACT: (False, 0, "user")}


def test_hooks_warn_with_a_prompt_and_with_a_file(shop, environment):
    remember(shop, "charge() takes an order.", about=["src/pay.py"])
    one = remember(shop, f"{TRIED} So did charge() in a thread.", rejected=True, about=["src/pay.py"]).memory
    assert not said(shop, event("prompt", environment.project, prompt="Which fixtures share one port?"))
    prompt = said(shop, event("prompt", environment.project, prompt=f"Please {QUESTION}."))
    assert f'- read(refs="{one.ref}")' in prompt
    assert MARK in prompt
    text = said(shop, edit(environment.project, "src/pay.py", session="other"))
    assert re.findall(r'read\(refs="([^"]+)"\)', text)[0] == one.ref
    assert text.splitlines()[1].count(MARK) == 1
    assert MARK not in text.splitlines()[3]


def test_an_answer_without_a_model_says_so(kbhub, environment):
    environment.write("knowledge/build.md", "# Build\n\nThe build takes long.\n")
    kbhub("remember", "--rejected", TRIED, code=0)
    answer = kbhub("ask", "Do we run the tests in parallel with pytest-xdist?", "--json", code=0).json
    assert answer["references"][0]["rejected"]
    assert f"{MARK.capitalize()}: Running the tests" in answer["text"]


def test_on_the_command_line(kbhub, environment):
    name = kbhub("remember", "--rejected", TRIED, "--json", code=0).json["memory"]["id"]
    assert MARK in kbhub("search", QUESTION, code=0).out
    assert MARK in kbhub("memories", code=0).out
    assert kbhub("search", QUESTION, "--json", code=0).json["hits"][0]["rejected"]
    assert MARK not in kbhub("remember", "--id", name, "--no-rejected", code=0).out
    assert "Marked as misleading" in kbhub("remember", "--id", name, "--misleading", code=0).out
    assert "misled 1 time" in kbhub("memories", code=0).out
    assert "outdated: said to be misleading" in kbhub("search", QUESTION, code=0).out
    assert "said to be misleading" in kbhub("audit", "memory", "--check", "memories").out


def test_what_misled_is_weaker_and_no_hook_brings_it_until_it_is_confirmed(shop, environment, clock):
    one = remember(shop, "The upload of the wheel needs the VPN.", about=["src/pay.py"], tags=["pitfall"]).memory

    def reach():
        prompt = said(shop, event("prompt", environment.project, prompt="does the upload of the wheel need the VPN"))
        told = said(shop, edit(environment.project, "src/pay.py"))
        start = said(shop, event("session-start", environment.project))
        for log in (environment.home.parent / "data").rglob("sessions/*"):
            log.unlink()
        return [one.ref in text for text in (prompt, told, start)]

    for settle in ({}, {"text": "The upload of the wheel needs the VPN of Berlin."}, {"tags": ["pitfalls"]}):
        clock.pass_days(1)
        first = remember(shop, id=one.id, misleading=True)
        second = remember(shop, id=one.id, misleading=True)
        assert (first.did, first.memory.misleading, second.memory.misleading) == ("doubted", 1, 2)
        assert second.memory.updated == first.memory.updated
        assert second.memory.strength == pytest.approx(first.memory.strength / 2, abs=0.001)
        assert (second.memory.uses, reach()) == (first.memory.uses, [False] * 3)
        assert remember(shop, id=one.id, **settle).memory.misleading == 0
        assert True in reach()
    remember(shop, id=one.id, misleading=True)
    assert remember(shop, "the upload of the wheel needs the VPN of Berlin").memory.misleading == 0


def test_what_misled_ranks_below_its_equal_and_replaces_nothing(hub, clock):
    old = remember(hub, "The gateway of team alpha restarts on Monday at noon.").memory
    clock.pass_days(1)
    new = remember(hub, "The gateway of team alpha restarts on Friday at noon.").memory
    assert new.may_supersede == (old.id,)
    assert [hit.ref for hit in search(hub, "when does the gateway restart")] == [new.ref, old.ref]
    remember(hub, id=new.id, misleading=True)
    first, second = search(hub, "when does the gateway restart")
    assert (first.ref, first.outdated) == (old.ref, None)
    assert (second.ref, second.outdated) == (new.ref, "said to be misleading")
    assert memories(hub).memories[-1].id == new.id


@pytest.mark.parametrize("wrong", [{}, {"text": "x"}, {"text": "x", "id": "y"}])
def test_only_a_memory_that_is_named_can_mislead(hub, wrong):
    with pytest.raises(UsageError, match="id of the memory that misled"):
        remember(hub, wrong.pop("text", "x" if not wrong else None), misleading=True, **wrong)


@pytest.mark.parametrize("value", ["-3", "0", "no", "often", "true", "1"])
def test_a_count_by_hand_is_read_as_far_as_it_makes_sense(environment, hub, value):
    remember(hub, FACT)
    (file,) = environment.memories()
    file.write_text(file.read_text().replace("---\n\n", f"misleading: {value}\n---\n\n"))
    hub = environment.hub()
    assert memories(hub).memories[0].misleading == (value in ("true", "1"))
    assert bool(search(hub)[0].outdated) == (value in ("true", "1"))


@pytest.mark.anyio
async def test_the_tool_takes_both(environment):
    async with Client(KbhubServer(environment.hub())) as client:
        done = await client.call_tool("remember", {"text": TRIED, "options": {"rejected": True}})
        assert MARK in done.content[0].text
        name = re.search(r"\bid (\w+)", done.content[0].text)[1]
        again = await client.call_tool("remember", {"text": "The tests run in parallel with xdist, though slower."})
        assert MARK in again.content[0].text
        done = await client.call_tool("remember", {"id": name, "options": {"misleading": True}})
        assert done.content[0].text.startswith("Marked as misleading")
        assert "misled 1 time" in done.content[0].text
