"""What an audit finds is printed as a host of repositories reads it."""

import json

import jsonschema
import pytest

from kbhub.editing.findings import CHECKS

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LINE = {"type": "integer", "minimum": 1}


def whole(**properties):
    return {"type": "object", "required": [*properties], "properties": properties}


def every(items):
    return {"type": "array", "items": items}


RULE = whole(id={"type": "string"}, shortDescription=TEXT, fullDescription=TEXT, help=TEXT)
REGION = whole(startLine=LINE, startColumn=LINE, endLine=LINE, endColumn=LINE)
PLACE = whole(artifactLocation=whole(uri={"pattern": "^[A-Za-z0-9_.~%/-]+$"}), region=REGION)
RESULT = whole(
    ruleId={"enum": [*CHECKS]},
    level={"enum": ["error", "warning", "note"]},
    message=TEXT,
    locations={**every(whole(physicalLocation=PLACE)), "minItems": 1, "maxItems": 1},
    partialFingerprints=whole(primaryLocationLineHash={"pattern": "^[0-9a-f]{16}:[0-9]+$"}),
)
DRIVER = whole(name={"const": "kbhub"}, rules={**every(RULE), "minItems": 1})
RUN = whole(tool=whole(driver=DRIVER), results=every(RESULT))
SARIF = whole(
    **{"$schema": {"const": "https://json.schemastore.org/sarif-2.1.0.json"}},
    version={"const": "2.1.0"},
    runs={**every(RUN), "minItems": 1, "maxItems": 1},
)
"""What GitHub says that it requires: "SARIF support for code scanning"."""


@pytest.fixture
def broken(environment):
    environment.write("knowledge/a b,c:d.md", "# A\n\n100 % of [one](none.md) and\n[one](none.md).\n")
    environment.write("knowledge/stale.md", "---\nreview: 2020-01-01\n---\n# Stale\n\nSee [a](a%20b,c:d.md).\n")
    environment.write(environment.home / "notes/x.md", "# X\n\n[one](none.md)\n")
    return environment


def results(outcome):
    log = json.loads(outcome.out)
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    assert all(run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    return run["results"]


def test_findings_are_sarif_as_github_requires_it(broken, kbhub):
    """Those of files outside of the repository are counted; a fingerprint stays if other lines come and go."""
    done = kbhub(
        "audit", "--sarif", "--base", f"notes={broken.home}/notes", "--check", "links", "--check", "stale", code=1
    )
    found = results(done)
    places = [one["locations"][0]["physicalLocation"] for one in found]
    assert [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places] == [
        ("knowledge/a%20b%2Cc%3Ad.md", 3),
        ("knowledge/a%20b%2Cc%3Ad.md", 4),
        ("knowledge/stale.md", 2),
    ]
    assert [one["level"] for one in found] == ["error", "error", "warning"]
    assert "1 finding outside of the repository not shown." in done.err
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in found]
    assert len(set(prints)) == 3
    broken.write("knowledge/a b,c:d.md", "# A\n\nMore.\n\n100 % of [one](none.md) and\n[one](none.md).\n")
    again = results(kbhub("audit", "--sarif", "--check", "links", "--check", "stale"))
    assert [one["partialFingerprints"]["primaryLocationLineHash"] for one in again] == prints


def test_no_finding_is_valid_sarif(environment, kbhub):
    environment.write("knowledge/a.md", "---\ntags: [a]\n---\n# A\n")
    assert results(kbhub("audit", "--sarif", code=0)) == []
    assert kbhub("audit", "--github", code=0).out == ""


def test_findings_are_commands_of_a_workflow(broken, kbhub):
    """No name or text ends a command early, or begins another one."""
    broken.write("knowledge/a b,c:d.md", "# A\n\n[one](<no%0A::error::ne.md>)\n")
    lines = kbhub("audit", "--github", "--check", "links", "--check", "stale", code=1).out.splitlines()
    assert lines[0].startswith("::error file=knowledge/a b%2Cc%3Ad.md,line=3,title=kbhub%3A links::")
    assert lines[1].startswith("::warning file=knowledge/stale.md,line=2,title=kbhub%3A stale::Its date has passed")
    assert len(lines) == 2
