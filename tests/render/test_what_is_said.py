"""An answer says why it has nothing, names what is there, and offers no call that brings nothing more."""

import pytest

from conftest import synced
from kbhub.errors import BaseNotFound
from kbhub.render.search import contribution_of
from kbhub.types import Query, Signal


def configure(environment, **bases):
    """Make folders bases of the user's."""
    environment.configure(bases={name: str(folder) for name, folder in bases.items()}, repos={"*": [*bases]})


def test_two_signals_of_one_ranking_are_said_to_be_too_many(environment, kbhub):
    environment.write("knowledge/deploy.md", "# Deploy\n\nRoll back a release.\n")
    told = "Hits of 2 signals were requested, but only the keyword signal ran."
    kbhub("admin", "index")
    one = kbhub("search", "release", "--mode", "keyword", "--min-signals", "2")
    both = kbhub("search", "release", "--min-signals", "2", code=0)

    assert told in one.err
    assert (told in both.err, "deploy.md" in both.out) == (False, True)
    for value, shown in ((-0.00004, "+0.0000"), (-0.0, "+0.0000"), (-0.25, "-0.2500"), (0.1234, "+0.1234")):
        assert contribution_of(Signal(name="rerank", value=2, contribution=value)) == shown


def test_a_base_that_is_not_there_is_told_with_those_that_are(environment):
    environment.write("knowledge/deploy.md", "# Deploy\n\nRoll back a release.\n")
    environment.write(environment.home / "notes/a.md", "# A\n\nrelease\n")
    configure(environment, notes=environment.home / "notes")
    hub = synced(environment)
    with pytest.raises(BaseNotFound, match="Active bases: project, notes"):
        hub.search(Query(text="release", bases=("nosuch",)))

    for text in ("release base:nosuch", "base:nosuch", "release base:notes,nosuch", "release -base:nosuch"):
        assert "No base 'nosuch'. Active bases: project, notes." in hub.search(text).notes
    for text in ("release base:Notes", "release base:*", "base:project"):
        assert not any("No base" in note for note in hub.search(text).notes)


@pytest.fixture
def nested(environment):
    """A base `vault` with a base `vpn` in one of its folders."""
    vault = environment.home / "vault"
    for number in range(4):
        environment.write(vault / f"{number}.md", f"# Note {number}\n\nbastion host {number}\n")
        environment.write(vault / f"infra/vpn/{number}.md", f"# Tunnel {number}\n\nbastion key {number}\n")
    configure(environment, vault=vault, vpn=vault / "infra/vpn")
    return synced(environment)


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_a_file_in_two_bases_is_found_once(nested, mode):
    """In the innermost base; the number says so, too."""
    every = [f"{base}@{number}.md" for base in ("vault", "vpn") for number in range(4)]
    for text in ("bastion", "age:<9000d", "bastion age:<9000d"):
        result = nested.search(Query(text=text, mode=mode, limit=20))
        assert sorted(ref for hit in result.hits for ref in (hit.ref, *hit.duplicates)) == every
        assert result.total == len(result.hits)


def test_a_file_in_two_bases_is_found_in_the_one_that_is_asked_for(nested):
    for text, bases in (("bastion", ("vault",)), ("bastion base:vault", ()), ("bastion -base:vpn", ())):
        result = nested.search(Query(text=text, bases=bases, limit=20))
        assert ({hit.base for hit in result.hits}, result.total) == ({"vault"}, 8)
    tunnels = nested.search(Query(text="bastion path:infra/", limit=20))
    assert {f"vault@infra/vpn/{number}.md" for number in range(4)} == {hit.ref for hit in tunnels.hits}


def test_what_the_inner_base_leaves_out_is_found_in_the_outer_one(environment):
    vault = environment.home / "vault"
    for name in ("kept", "left"):
        environment.write(vault / f"infra/{name}.md", f"# {name}\n\nbastion key\n")
    environment.configure(
        bases={"vault": "~/vault", "infra": {"knowledge": "~/vault/infra", "exclude": ["left.md"]}},
        repos={"*": ["vault", "infra"]},
    )
    hits = synced(environment).search("bastion").hits

    assert {"infra@kept.md", "vault@infra/left.md"} == {hit.ref for hit in hits}
