"""The rules of the specification, each broken once, on bundles made by hand."""

import json

import pytest

from conftest import synced
from kbhub.editing.audit import audit
from kbhub.extensions.okf.pages import faults
from kbhub.types import Query

INDEX = '---\nokf_version: "0.2"\n---\n# Metrics\n\n* [Revenue](metrics/revenue.md) - what was earned\n'
LOG = "# Log\n\n## 2026-05-22\n* **Update**: Changed [Revenue](/metrics/revenue.md).\n\n## 2026-05-15\n* Made.\n"
WHOLE = """---
type: Attested Computation
title: Revenue
runtime: bigquery
parameters:
  - { name: year, type: integer, required: true }
generated: { by: reference_agent/gemini-2.5-pro, at: 2026-06-20T22:53:05Z }
verified: { by: human:ana, at: 2026-06-25T09:00:00Z }
status: stable
stale_after: 2028-09-23
sources:
  - { id: policy, resource: https://wiki.example/policy, last_modified: 2026-04-02 }
  - resource: all queries in the project
colour: of the producer's own
---

# Computation

    SELECT 1

See [what is not yet written](/none.md).[^policy]

[^policy]: Policy
"""


@pytest.fixture
def bundle(environment):
    for path, text in {"index.md": INDEX, "log.md": LOG, "metrics/revenue.md": WHOLE}.items():
        environment.write(f"knowledge/{path}", text)
    return environment


def found(path, text):
    return [(one.line, one.severity) for one in faults(path, text, lists=True)]


def test_a_conformant_bundle_has_no_findings(bundle):
    """A broken link, an unknown type and an unknown key are no faults."""
    bundle.write("knowledge/plain.md", "---\ntype: Anything at all\n---\n")
    hub = synced(bundle)
    report = audit(hub, checks=["okf"])
    assert (report.documents, report.findings, report.notes) == (4, (), ())


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


def test_the_command_finds_fault_with_line_and_remedy(bundle, kbhub):
    bundle.write("knowledge/metrics/cost.md", "---\ntype: Metric\nstatus: old\n---\n# Cost\n")
    outcome = kbhub("audit", "--okf", "--fail-on", "warning", "--json")
    (finding,) = json.loads(outcome.out)["findings"]
    assert (outcome.code, finding["path"], finding["line"], finding["check"]) == (1, "metrics/cost.md", 3, "okf")
    assert finding["remedy"] == "Use one of draft, stable, deprecated."


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
