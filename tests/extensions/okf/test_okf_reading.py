"""Bundles of the Open Knowledge Format: what their pages say of themselves, how they are copied, and its rules."""

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from starlette.testclient import TestClient

from conftest import synced
from kbhub.answers.question import prepare
from kbhub.editing.audit import audit
from kbhub.extensions.okf.pages import faults
from kbhub.extensions.page.app import create_app
from kbhub.index.references import TRUST
from kbhub.render.search import search_answer
from kbhub.types import Query

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


PAGE = "---\r\ntype: Metric\r\nexecutor: { resource: references/run.py }\r\n---\r\n# Revenue\r\n\r\n![p](img/p.png)\r\n"
BUNDLE = {
    "index.md": b'---\nokf_version: "0.2"\n---\n# Metrics\n* [Revenue](revenue.md)\n',
    "log.md": b"# Log\n\n## 2026-01-15\n* **Creation**: By hand.", "revenue.md": PAGE.encode(),
    "latin.md": b"---\ntype: Note\n---\n# caf\xe9\n", "references/run.py": b"print(1)\n", "img/p.png": b"\x89PNG\x00",
}  # fmt: skip
SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6"


@pytest.fixture
def exported(environment, kbhub, tmp_path):
    """Exports the project's knowledge; gives what came, the exit code and the result."""

    def run(*options):
        outcome = kbhub("base", "export", "project", str(tmp_path / "out"), "--json", *options)
        files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
        came = {file.relative_to(tmp_path / "out").as_posix(): file.read_bytes() for file in files}
        return came, outcome.code, json.loads(outcome.out)

    return run


def write(environment, files):
    for path, data in files.items():
        environment.write(f"knowledge/{path}", data)


@pytest.mark.parametrize("options", [(), ("--okf",)])
def test_a_bundle_round_trips_byte_for_byte(environment, exported, options):
    """With the files that its pages name, and without those that nobody names."""
    write(environment, BUNDLE | {"unnamed.py": b"x = 1\n"})
    came, code, result = exported(*options)
    assert came == BUNDLE
    assert (code, result["changed"], result["faults"]) == (0, [], 0)


def test_another_base_becomes_a_bundle(environment, exported):
    write(environment, {"a.md": "# A\r\n\r\ntext\r\n", "sub/b.md": "---\ntags: [x] # why\n---\n# B [b]\n"})
    came, code, result = exported("--okf")
    assert came["a.md"] == b"---\r\ntype: Reference\r\n---\r\n\r\n# A\r\n\r\ntext\r\n"
    assert came["sub/b.md"] == b"---\ntags: [x] # why\ntype: Reference\n---\n# B [b]\n"
    assert came["index.md"] == b'---\nokf_version: "0.2"\n---\n# Pages\n\n* [A](a.md)\n* [sub](sub/)\n'
    assert (code, result["changed"], result["faults"]) == (0, ["a.md", "sub/b.md", "index.md"], 0)


def test_a_hostile_bundle_leaks_nothing(environment, exported):
    """Names of hidden, ignored and outer files, links out, credentials, and front matter that never ends."""
    outer = environment.write("secret.txt", "outside")
    write(
        environment,
        {".env": "KEY=1", "ignored.bin": "x", ".gitignore": "ignored.bin\n", "token.md": f"# T\n\n{SECRET}\n"},
    )
    environment.project.joinpath("knowledge/link.md").symlink_to(outer)
    environment.project.joinpath("knowledge/pic.png").symlink_to(outer)
    environment.project.joinpath("knowledge/own.png").symlink_to(".env")
    named = "[a](../secret.txt) [b](/../secret.txt) [c](.env) [d](ignored.bin) ![e](pic.png) ![f](own.png)"
    write(
        environment,
        {"page.md": f"---\ntype: X\ncomputation: {outer}\nexecutor: [{{resource: .env}}]\n---\n# P\n\n{named}\n"},
    )
    write(environment, {"endless.md": f"---\ntype: X\nmore: {'x' * 70_000}\n"})
    came, code, result = exported("--okf")
    assert came.keys() == {"page.md", "endless.md", "index.md"}
    assert (code, result["refused"], result["faults"]) == (1, ["token.md"], 1)


def test_no_file_is_overwritten_and_no_base_is_copied_into_itself(environment, kbhub, tmp_path):
    write(environment, BUNDLE)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.md").write_text("mine")
    for folder in (tmp_path / "full", environment.project / "knowledge" / "out"):
        outcome = kbhub("base", "export", "project", str(folder))
        assert (outcome.code, outcome.out) == (2, "")
    assert not (environment.project / "knowledge" / "out").exists()


def test_init_makes_a_bundle(kbhub, environment, tmp_path):
    outcome = kbhub("init", "--okf", "--no-agents-md")
    assert outcome.code == 0
    assert kbhub("audit", "--okf", "--fail-on", "info").code == 0
    assert environment.project.joinpath("knowledge/log.md").read_text().startswith("# Log\n\n## 20")
    before = {file: file.read_bytes() for file in (environment.project / "knowledge").iterdir()}
    assert "index.md exists" in kbhub("init", "--okf", "--no-agents-md").err
    assert {file: file.read_bytes() for file in before} == before


INDEX = '---\nokf_version: "0.2"\n---\n# Metrics\n\n* [Revenue](metrics/revenue.md) - what was earned\n'
LOG = "# Log\n\n## 2026-05-22\n* **Update**: Changed [Revenue](/metrics/revenue.md).\n\n## 2026-05-15\n* Made.\n"
WHOLE = Path(__file__).with_name("revenue.md").read_text("utf-8")
"""A page with all that the specification knows."""


@pytest.fixture
def bundle(environment):
    for path, text in {"index.md": INDEX, "log.md": LOG, "metrics/revenue.md": WHOLE}.items():
        environment.write(f"knowledge/{path}", text)
    return environment


def found(path, text):
    return [(one.line, one.severity) for one in faults(path, text, lists=True)]


def test_a_conformant_bundle_has_no_findings_and_the_command_finds_fault_with_line_and_remedy(bundle, kbhub):
    """A broken link, an unknown type and an unknown key are no faults."""
    bundle.write("knowledge/plain.md", "---\ntype: Anything at all\n---\n")
    hub = synced(bundle)
    report = audit(hub, checks=["okf"])
    assert (report.documents, report.findings, report.notes) == (4, (), ())
    bundle.write("knowledge/metrics/cost.md", "---\ntype: Metric\nstatus: old\n---\n# Cost\n")
    outcome = kbhub("audit", "--okf", "--fail-on", "warning", "--json")
    (finding,) = json.loads(outcome.out)["findings"]
    assert (outcome.code, finding["path"], finding["line"], finding["check"]) == (1, "metrics/cost.md", 3, "okf")
    assert finding["remedy"] == "Use one of draft, stable, deprecated."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# No front matter\n", 1), ("", 1), ("---\ntype: [open\n---\n", 3), ("---\ntype: Metric\n", 1),
        ("---\n---\n", 1), ("---\ntitle: A\n---\n", 1), ("---\ntitle: A\ntype: ' '\n---\n", 3),
        (f"---\ntype: Metric\nmore: {'x' * 70_000}\n---\n", 1),
    ],
)  # fmt: skip
def test_a_page_needs_front_matter_with_a_type(text, line):
    assert found("a/page.md", text) == [(line, "error")]


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("sources: https://example.com", "warning"), ("sources: [{ title: no resource }]", "warning"),
        ("sources: [{ resource: x, last_modified: May }]", "warning"),
        ("generated: { at: 2026-06-20T22:53:05Z }", "warning"), ("generated: { by: somebody }", "warning"),
        ("generated: { by: agent/1, at: 2026-06-20 }", "warning"), ("verified: { by: human:ana }", "warning"),
        ("verified: [{ by: process:nightly, at: 2026-06-20T22:53:05Z }, yes]", "warning"),
        ("status: superseded", "warning"), ("stale_after: in a year", "warning"),
        ("stale_after: 2026-02-30", "warning"), ("timestamp: '2026-05-28T22:53:05+00:00'", "info"),
    ],
)  # fmt: skip
def test_what_the_specification_says_of_a_key_is_advice(lines, severity):
    assert found("page.md", f"---\ntype: Metric\n{lines}\n---\n") == [(3, severity)]


def test_a_computation_says_what_runs_it_and_has_a_text_and_line_endings_are_no_matter():
    assert found("page.md", "---\ntype: Attested Computation\n---\n") == [(2, "warning")] * 2
    assert found("page.md", "---\ntype: Attested Computation\nruntime: dbt\ncomputation: a.sql\n---\n") == []
    assert found("page.md", WHOLE.replace("\n", "\r\n")) == []


@pytest.mark.parametrize(
    ("path", "text", "faulty"),
    [
        ("index.md", INDEX, []),
        ("a/index.md", "# A\n\n- [B](b.md)\n", []),
        ("a/index.md", INDEX, [(1, "error")]),
        ("index.md", "---\nokf_version: '0.2'\ntype: Home\n---\n# A\n* [B](b.md)\n", [(3, "error")]),
        ("index.md", "* [B](b.md)\n", [(1, "error")]),
        ("index.md", "# A\n\nProse about B.\n", [(1, "error")]),
        ("log.md", LOG, []),
        ("a/log.md", "# Log\n\nNothing yet.\n", [(1, "error")]),
        ("log.md", "# Log\n\n## 22 May 2026\n* a\n", [(3, "error")]),
        ("log.md", "# Log\n\n## 2026-01-01\n* a\n\n## 2026-01-02\n* b\n", [(6, "error")]),
        ("log.md", "---\ntype: Log\n---\n## 2026-01-01\n* a\n", []),
    ],
)
def test_reserved_files_have_their_own_form(path, text, faulty):
    assert found(path, text) == faulty


def test_only_bundles_are_checked_and_bases_that_are_named(environment):
    environment.write("knowledge/page.md", "# Page\n")
    hub = synced(environment)
    assert audit(hub).notes == ()
    (note,) = audit(hub, checks=["okf"]).notes
    assert note.startswith("project: not checked, because its index.md does not declare `okf_version`")
    assert [one.check for one in audit(hub, ["project"], checks=["okf"]).findings] == ["okf"]
    environment.write("knowledge/index.md", INDEX)
    hub.sync()
    assert [one.path for one in audit(hub).findings if one.check == "okf"] == ["page.md"]


def test_the_log_of_a_bundle_is_behind_its_pages(bundle):
    """It has the words of every page. In any other base, it is a document like others."""
    log = "# Log\n\n## 2026-05-22\n* Changed the revenue of the year, and what revenue means.\n"
    bundle.write("knowledge/log.md", log)
    bundle.write(
        "knowledge/metrics/revenue.md", "---\ntype: Metric\n---\n# Earnings\n\nThe revenue of a year is its sum.\n"
    )
    hub = synced(bundle)
    query = Query(text="what revenue means in a year", explain=True)
    hits = hub.search(query).hits
    assert hits[0].path == "metrics/revenue.md"
    assert [hit.trace.factors for hit in hits if hit.path == "log.md"] == [{"reserved": 0.2}]
    bundle.write("knowledge/index.md", INDEX.partition("---\n# ")[2])
    hub.sync()
    assert all(not hit.trace.factors for hit in hub.search(query).hits)
