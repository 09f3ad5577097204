"""A prompt is told only of passages that have what names its subject, and a page named after it goes first."""

from __future__ import annotations

import re

import pytest

from conftest import synced
from hook_events import event, reading
from kbhub.hooks.delivery import deliver, names_in
from kbhub.hooks.sessions import let_speak
from kbhub.memory.changes import remember

PAGES = {
    "authentication.md": "# Authentication\n\nThe client authenticates with a password for each private index. "
    "The password of a private index may be in its address, in the keyring or in the environment.\n",
    "http.md": "# Credentials\n\nThe client reads the password of a private index from a netrc file, which is "
    "ignored if the address has a password of its own.\n",
    "docker.md": "# Docker\n\nNever edit the lock file in the container. The image is rebuilt when the lock file "
    "changes, and the layer with the dependencies stays.\n",
    "environments.md": "# Environments\n\nEach environment has a folder of its own, named by its hash.\n",
    "keyring.md": "# Keyring\n\nThe keyring keeps what the client should not write into files.\n",
    "proxies.md": "# Proxies\n\nA proxy needs a certificate that the client knows.\n",
    "mirrors.md": "# Mirrors\n\nA mirror of the index answers when the index is down.\n",
    "caches.md": "# Caches\n\nThe cache holds wheels, archives and clones.\n",
    "reference/max_retries.md": "# The setting\n\nHow often the client tries again: three times.\n",
}


@pytest.fixture
def hub(environment):
    for name, text in PAGES.items():
        environment.write(f"knowledge/{name}", text)
    made = synced(environment)
    let_speak(made)
    return made


def refs(hub, environment, prompt):
    delivery = deliver(hub, event("prompt", environment.project, prompt=prompt))
    return [ref.partition(":")[0] for ref in delivery.refs] if delivery else []


def test_the_page_that_names_the_thing_is_told_not_one_about_its_subject(hub, environment):
    prompt = "why does the client ignore the password in my .netrc for the private index"

    assert refs(hub, environment, prompt) == ["http.md"]


def test_a_page_that_lacks_the_named_file_is_not_told(hub, environment):
    environment.write("knowledge/locks.md", "# Locks\n\nuv.lock holds the resolved versions.\n")
    hub.sync()

    assert "docker.md" not in refs(hub, environment, "never edit the uv.lock file when the image is rebuilt")


def test_a_prompt_that_names_nothing_is_not_answered(hub, environment):
    assert refs(hub, environment, "the client should be able to do it again when it is down") == []


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("set max_retries of the client to five", ["max_retries"]),
        ("is the netrc file read by the client", ["netrc"]),
        ("use FOO_BAR in unknown.py for it", []),
        ("", []),
        ("!? … -- '\x00' ::", []),
    ],
)
def test_names_are_identifiers_and_rare_words_that_the_bases_know(hub, prompt, names):
    assert list(names_in(hub, prompt, hub.discovery().bases)) == names


@pytest.mark.parametrize("tags", [["pitfall"], ["Pitfalls"]])
def test_a_pitfall_about_the_named_file_comes_first(shop, environment, tags):
    remember(shop, "charge() must not round.", about=["src/pay.py::charge"])
    remember(shop, "Moving it to a thread failed.", about=["src/pay.py"], rejected=True)
    pitfall = remember(shop, "Amounts are in cents.", about=["src/pay.py"], tags=tags).memory.ref

    for what in (
        reading(environment.project, "src/pay.py", session="a"),
        event("prompt", environment.project, prompt="round the sum in src/pay.py", session="b"),
    ):
        assert re.findall(r'read\(refs="([^"]+)"\)', deliver(shop, what).text)[0] == pitfall


def test_a_document_tagged_pitfall_comes_before_memories(shop, environment):
    remember(shop, "charge() must not round.", about=["src/pay.py"])
    environment.write("knowledge/cents.md", "---\nrefs: src/pay.py\ntags: pitfall\n---\n# Cents\n\nNever floats.\n")
    shop.sync()

    assert deliver(shop, reading(environment.project, "src/pay.py")).refs[0] == "cents.md"
