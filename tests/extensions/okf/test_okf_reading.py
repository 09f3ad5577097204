"""Pages of the Open Knowledge Format say who stands behind them, and until when they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote_plus

import pytest
from starlette.testclient import TestClient

from conftest import synced
from kbhub.answers.question import prepare
from kbhub.editing.audit import audit
from kbhub.index.references import TRUST
from kbhub.render.search import search_answer
from kbhub.types import Query
from kbhub.ui.app import create_app

AGENT = "generated: { by: reference_agent/1.0, at: 2026-05-28T14:30:00Z }"
HUMAN = "{ by: human:ana, at: 2026-06-25T09:00:00Z }"
PROCESS = "{ by: process:nightly, at: 2026-06-26T02:00:00Z }"


def page(*lines, type_="Metric", text="# Revenue\n\nRevenue sums the orders of a year.\n"):
    return "\n".join(["---", f"type: {type_}", *lines, "---", "", text])


def hits(hub, text="revenue orders year"):
    hub.sync()
    return hub.search(Query(text=text)).hits


@pytest.mark.parametrize(
    ("lines", "trust"),
    [
        ((), None), ((AGENT,), "generated"), (("generated: { by: human:ana }",), None),
        ((AGENT, f"verified: {PROCESS}"), "machine-confirmed"), ((AGENT, f"verified: {HUMAN}"), "human-reviewed"),
        ((AGENT, f"verified:\n  - {PROCESS}\n  - {HUMAN}\n  - {PROCESS}"), "human-reviewed"),
        (("verified: 2026-06-25",), None), (("verified: { by: 'a\\n  human: x' }",), "machine-confirmed"),
    ],
)  # fmt: skip
def test_one_word_says_who_stands_behind_a_page(environment, hub, lines, trust):
    """A bare mapping counts as a list of one; only `human:` makes a person."""
    environment.write("knowledge/revenue.md", page(*lines))
    (hit,) = hits(hub)
    assert hit.trust == trust
    query = Query(text="revenue orders year")
    shown = search_answer(hub.search(query), query, str)[0]
    assert [word for word in TRUST if word in shown] == ([trust] if trust else [])
    assert {one.trust for one in prepare(hub, "What does revenue sum?").passages} == {trust}


@pytest.mark.parametrize(("day", "stale"), [(-1, True), (0, True), (1, False)])
def test_a_page_is_stale_from_the_day_that_it_names(environment, hub, clock, day, stale):
    date = datetime.fromtimestamp(clock() + day * 86_400, UTC).date().isoformat()
    environment.write("knowledge/revenue.md", page(f"stale_after: {date}", f"updated: {date}"))
    (hit,) = hits(hub)
    assert (hit.stale, hit.outdated) == (stale, f"stale since {date}" if stale else None)
    found = [(one.line, one.message) for one in audit(hub, checks=["stale"]).findings]
    assert found == ([(3, f"Its date has passed: stale since {date}.")] if stale else [])


@pytest.mark.parametrize(
    "query",
    [
        'type:"attested computation"', "verified.by:human:ana", "verified.at:2026-06-25", "generated.at:>2026-05-27",
        "stale_after:<2027-01-02", "sources.resource:https://wiki.example/policy", "status:draft",
    ],
)  # fmt: skip
def test_what_front_matter_says_is_a_filter(environment, hub, query):
    lines = (AGENT, f"verified: {HUMAN}", "status: draft", "stale_after: 2027-01-01")
    source = "sources:\n  - { id: policy, resource: https://wiki.example/policy }"
    environment.write("knowledge/one.md", page(*lines, source, type_="Attested Computation"))
    environment.write("knowledge/other.md", page())
    assert [hit.ref for hit in hits(hub, query)] == ["one.md"]


def test_a_type_is_a_facet(environment):
    environment.write("knowledge/one.md", page(type_="BigQuery Table"))
    environment.write("knowledge/other.md", page(AGENT))
    app = create_app(synced(environment))
    try:
        page_of_hits = TestClient(app).get("/?q=revenue").text
    finally:
        app.state.site.end()
    assert quote_plus('revenue type:"bigquery table"') in page_of_hits
    assert '<span class="tag">generated</span>' in page_of_hits
