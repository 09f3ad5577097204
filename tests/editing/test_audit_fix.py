"""`--fix` changes what is certain and nothing else; what a document says it is about is looked up in the project."""

import json
import os
from pathlib import Path

import jsonschema
import pytest

from conftest import synced
from kbhub.editing.audit import audit, fix
from kbhub.editing.findings import CHECKS
from kbhub.reading.code_references import Code, Sources

FRONT = b"""---
# keep this
tags: [ 'Runbooks',  other ]   # and this
related:
- Guides/setup   # mine
- "guides/setup"
---
"""
BODY = (
    b'# A\r\n\r\n[x](Guides/setup.md "title") [y](guides/Setup#part)\n'
    b"`[x](Guides/setup.md)`\n\n[r]: GUIDES/Setup.md\n\n[r] end"
)


@pytest.fixture
def vault(environment):
    """A document with every fault that can be fixed, in a base that may be written."""
    environment.write("knowledge/a.md", FRONT + BODY)
    environment.write("knowledge/guides/Setup.md", "# Setup\n\n## Part\n")
    for name in "xyz":
        environment.write(f"knowledge/{name}.md", "---\ntags: [runbook]\n---\n# X\n")
    return environment


def test_a_dry_run_tells_the_same_and_writes_nothing_and_a_fix_replaces_the_faults_and_no_other_byte(vault):
    hub = synced(vault)
    report = audit(hub, checks=["tags"])
    before = {path: path.read_bytes() for path in vault.project.rglob("*.md")}
    planned = fix(hub, report, dry_run=True)
    assert before == {path: path.read_bytes() for path in vault.project.rglob("*.md")}
    assert planned.dry_run
    (change,) = fix(hub, report).changes
    assert planned.changes == (change,)
    assert (change.ref, change.line, change.check, change.before, change.after) == (
        "a.md", 3, "tags", "Runbooks", "runbook",
    )  # fmt: skip

    # Comments, quotes, blanks, line endings, titles and code stay as they are.
    fixed = fix(hub, audit(hub))

    changes = (
        (b"'Runbooks'", b"'runbook'"), (b"- Guides/setup ", b"- guides/Setup "),
        (b'"guides/setup"', b'"guides/Setup"'), (b'[x](Guides/setup.md "', b'[x](guides/Setup.md "'),
        (b"(guides/Setup#part)", b"(guides/Setup.md#part)"), (b"[r]: GUIDES/", b"[r]: guides/"),
    )  # fmt: skip
    wanted = FRONT + BODY
    for before, after in changes:
        assert wanted.count(before) == 1
        wanted = wanted.replace(before, after)
    assert fixed.failed == ()
    assert (vault.project / "knowledge/a.md").read_bytes() == wanted
    left = audit(hub)
    assert [one for one in left.findings if one.fix] == []
    assert [one for one in left.findings if one.check in ("links", "related", "tags", "headings")] == []


def test_no_fix_is_offered_without_exactly_one_candidate_that_can_be_written(environment):
    """Two files differ by case alone."""
    environment.write("knowledge/a.md", "# A\n\n[x](SETUP.md)\n")
    for name in ("Setup", "setup"):
        environment.write(f"knowledge/{name}.md", f"# {name}\n")
    if len(list((environment.project / "knowledge").iterdir())) < 3:
        pytest.skip("this file system takes the two for one")
    hub = synced(environment)
    report = audit(hub, checks=["spelling"])
    assert [one.fix for one in report.findings] == [None]
    assert report.fixable == 0
    assert fix(hub, report).changes == ()


def test_read_only_bases_are_left_alone_with_the_reason(environment):
    outside = environment.home / "notes"
    outside.mkdir()
    (outside / "a.md").write_text("[x](B.md) [y](B)\n")
    (outside / "b.md").write_text("# B\n")
    hub = synced(environment, bases={"notes": outside})
    report = audit(hub, checks=["spelling"])
    fixed = fix(hub, report)
    assert (outside / "a.md").read_text() == "[x](B.md) [y](B)\n"
    assert (len(report.findings), report.fixable, fixed.changes) == (2, 0, ())
    assert [one.subject for one in fixed.failed] == ["notes"]


def test_tags_are_mended_however_they_are_written(environment):
    """Lists, text with commas, hashes; a tag that is there already is not said twice."""
    tags = {
        "tags: Runbooks, other": "tags: runbook, other",
        'tags: "#Runbooks #other"': 'tags: "#runbook #other"',
        "tags:\n  - other  # c\n  - Runbooks\n  - runbook": "tags:\n  - other  # c\n  - runbook",
        "tag: Runbooks": "tag: runbook",
        "TAGS: [Runbooks, 'a b']": "TAGS: [runbook, 'a b']",
    }
    for number in range(9):
        environment.write(f"knowledge/x{number}.md", "---\ntags: [runbook]\n---\n# X\n")
    for number, before in enumerate(tags):
        environment.write(f"knowledge/{number}.md", f"---\ntitle: A\n{before}\n---\ntext\n")
    hub = synced(environment)
    fixed = fix(hub, audit(hub, checks=["tags"]))
    assert fixed.failed == ()
    for number, after in enumerate(tags.values()):
        text = (environment.project / f"knowledge/{number}.md").read_text()
        assert text == f"---\ntitle: A\n{after}\n---\ntext\n"


def test_what_cannot_be_changed_alone_is_left_and_told(environment):
    """A document with damaged bytes is never written; a link may fail though others of its document could be fixed."""
    environment.write("knowledge/a.md", b"[x](B.md) caf\xe9\n")
    environment.write("knowledge/b.md", "# B\n")
    environment.write("knowledge/c.md", "# A\n\n[x](Plan_b.md)\n\n[y](Plan\\_b.md)\n")
    environment.write("knowledge/plan_b.md", "# B\n")
    hub = synced(environment)
    fixed = fix(hub, audit(hub, checks=["spelling"]))
    assert (environment.project / "knowledge/a.md").read_bytes() == b"[x](B.md) caf\xe9\n"
    assert (environment.project / "knowledge/c.md").read_text() == "# A\n\n[x](plan_b.md)\n\n[y](Plan\\_b.md)\n"
    assert [(one.line, one.after) for one in fixed.changes] == [(3, "plan_b.md")]
    assert [(one.subject, "line 5" in one.message) for one in fixed.failed] == [("a.md", False), ("c.md", True)]


def test_the_command_mends_and_looks_again(vault, kbhub):
    code, out, _ = kbhub("audit", "--fix")
    assert code == 0
    assert "a.md:3  Runbooks → runbook" in out
    assert "--fix" not in out
    assert kbhub("audit", "--check", "spelling")[1] == "5 documents in 1 base: no problems found.\n"


def test_the_exit_code_tells_a_build_and_nothing_to_audit_is_no_success(kbhub, environment):
    assert "No knowledge is active here" in kbhub("audit", code=1).err
    # Errors fail it unless it asks for more or less.
    environment.write("knowledge/a.md", "[x](gone.md)\n")
    environment.write("knowledge/b.md", "no title\n")
    assert [kbhub("audit", "--fail-on", level)[0] for level in ("error", "warning", "info", "never")] == [1, 1, 1, 0]
    assert [kbhub("audit", "--check", "titles", "--fail-on", level)[0] for level in ("error", "warning")] == [0, 1]


PYTHON = '''
import os
from typing import Any as Whatever

LIMIT: int = 3

class Shop:
    """A shop sells(): mentioned in a docstring only."""

    open_until = 18

    def __init__(self) -> None:
        self.stock = {}

    async def sell(self, item):
        def check():
            return LIMIT
        return self.refund(item)

if os.name:
    def conditional(): ...
'''

GO = """
package shop

type Cart struct {
\tItems []string
}

func (c *Cart) Add(item string) error { return nil }
"""


def found_in(code, symbols):
    lost = code.undefined(symbols)
    return "defined" if lost is None else "named" if code.mentions(lost.name) else "missing"


@pytest.mark.parametrize(
    ("symbols", "found"),
    [
        ("LIMIT Shop Shop::open_until Shop::__init__ Shop::stock Shop::sell Shop::sell::check Shop.sell()", "defined"),
        ("conditional", "defined"),
        ("os Whatever refund sells Shop::LIMIT Shop::conditional Shop::check", "named"),
        ("nowhere_at_all Shop::sel", "missing"),
    ],
)
def test_a_symbol_of_python_is_defined_named_or_missing(symbols, found):
    """Each within its outer one; calls, imports and comments do not define it."""
    assert dict.fromkeys(symbols.split(), found) == {
        symbol: found_in(Code("x.py", PYTHON), symbol.split("::")) for symbol in symbols.split()
    }


def test_a_symbol_of_another_language_is_there_if_the_file_names_it_and_what_was_meant_is_suggested():
    """As a whole word; so it is in Python that does not parse."""
    code = Code("x.go", GO)
    broken = Code("x.py", "class A:\n    def b(self):\n        print 'x'\n")
    found = [found_in(code, names) for names in (["Cart", "Add"], ["Item"], ["Cart", "ad"])]
    assert found == ["defined", "missing", "missing"]
    assert [found_in(broken, names) for names in (["A", "b"], ["c"])] == ["defined", "missing"]
    assert Code("x.py", PYTHON).undefined(["Shop", "sel"]).near == "sell"
    assert Code("x.go", GO).undefined(["Cartt"]).near == "Cart"


@pytest.mark.parametrize("text", ["(" * 100_000, "-" * 200_000 + "1", "\0", "a." * 100_000 + "b"])
@pytest.mark.parametrize("name", ["x.py", "x.js"])
def test_no_source_file_makes_it_fail(name, text):
    assert found_in(Code(name, text + "\n" + "x(" * 3000), ["x", "y"]) == "missing"


@pytest.fixture
def sources(environment):
    environment.write("src/shop.py", PYTHON)
    environment.write("src/big.py", "x = 1\n" * 800_000)
    environment.write("secret.py", "key = 1\n")
    for folder in (".cache", "node_modules"):
        environment.write(f"{folder}/vendored_by_others.py", "x = 1\n")
    return Sources(environment.project)


def test_what_is_there_has_no_fault_and_a_fault_says_what_it_is_and_what_was_meant(sources):
    for entry in ["src/shop.py", "./src/shop.py", "src/", "src", ".", "src/shop.py::Shop::sell", "src/shop.py::"]:
        assert sources.fault(entry) is None, entry
    for entry, told in {
        "../x.py": ("outside", ""), "/etc/passwd": ("outside", ""), "src/../secret.py": ("outside", ""),
        "src/\0.py": ("outside", ""), "shop.py": ("missing", "src/shop.py"),
        "src/shops.py::Shop": ("missing", "src/shop.py"), "src::Shop": ("missing", ""),
        "vendored_by_others.py": ("missing", ""),
        "src/big.py::x": ("unchecked", ""), "src/shop.py::Whatever": ("named", ""),
        "src/shop.py::Shop::seller": ("undefined", "src/shop.py::Shop::sell"),
    }.items():  # fmt: skip
        fault = sources.fault(entry)
        assert (fault.state, fault.near) == told, entry


@pytest.mark.skipif(os.name == "nt", reason="making links asks for a privilege there")
def test_a_link_out_of_the_project_is_not_followed(sources, environment):
    """A clone could hold a link to the user's keys and ask whether a word is in them."""
    (environment.home / "keys.py").write_text("password = 1\n")
    (environment.project / "link.py").symlink_to(environment.home / "keys.py")
    os.mkfifo(environment.project / "pipe.py")
    assert sources.fault("link.py::password").state == "outside"
    assert sources.fault("pipe.py::x").state == "missing"


def test_an_audit_tells_broken_refs_with_their_line(environment):
    environment.write("src/shop.py", PYTHON)
    refs = ["src/shop.py::Shop::sell", "src/gone.py", "src/shop.py::Shop::buy", "src/shop.py::os", "https://x.org/a"]
    environment.write("knowledge/a.md", "---\nrefs:\n" + "".join(f"  - {one}\n" for one in refs) + "---\n# A\n")
    report = audit(synced(environment), checks=["refs"])
    assert [(one.line, one.severity, one.message) for one in report.findings] == [
        (4, "error", "`refs` names 'src/gone.py', but the file does not exist."),
        (5, "error", "`refs` names 'src/shop.py::Shop::buy', but the file has no 'buy'."),
        (6, "warning", "`refs` names 'src/shop.py::os', but the file mentions 'os', but does not define it."),
    ]


def test_refs_of_a_base_without_a_project_are_noted_once(environment):
    for name in "ab":
        environment.write(environment.home / "notes" / f"{name}.md", "---\nrefs: [src/gone.py, x.py]\n---\n# N\n")
    report = audit(synced(environment, bases={"notes": environment.home / "notes"}), checks=["refs"])
    assert report.findings == ()
    assert report.notes == ("notes: 4 entries of `refs` not checked, because the base belongs to no project.",)


SARIF = json.loads(Path(__file__).with_name("sarif.json").read_text("utf-8"))
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
    for one in run["results"]:
        assert run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["ruleId"] in CHECKS
    return run["results"]


def test_findings_are_sarif_as_github_requires_it_and_commands_of_a_workflow(broken, kbhub):
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

    # No name or text ends a command early, or begins another one.
    broken.write("knowledge/a b,c:d.md", "# A\n\n[one](<no%0A::error::ne.md>)\n")
    lines = kbhub("audit", "--github", "--check", "links", "--check", "stale", code=1).out.splitlines()
    assert lines[0].startswith("::error file=knowledge/a b%2Cc%3Ad.md,line=3,title=kbhub%3A links::")
    assert lines[1].startswith("::warning file=knowledge/stale.md,line=2,title=kbhub%3A stale::Its date has passed")
    assert len(lines) == 2


def test_no_finding_is_valid_sarif(environment, kbhub):
    environment.write("knowledge/a.md", "---\ntags: [a]\n---\n# A\n")
    assert results(kbhub("audit", "--sarif", code=0)) == []
    assert kbhub("audit", "--github", code=0).out == ""
