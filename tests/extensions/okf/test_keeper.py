"""Of the pages about code and sources, the keeper names those whose code or source changed, and no other one."""

import hashlib
from itertools import count
from pathlib import Path

import pytest

from conftest import synced
from kbhub.editing.audit import audit, fix
from kbhub.editing.findings import KEPT
from kbhub.memory.changes import remember
from kbhub.types import Query
from kbhub.usage.gaps import maintain
from kbhub.usage.log import record
from repositories import commit

START = 1_700_000_000
"""2023-11-14, 22:13."""
DAY = 86_400

PYTHON = '''"""Orders."""

LIMIT_{n} = 3


class Cart_{n}:
    """Holds items."""

    def add(self, item):
        """Add one."""
        self.items.append(item)  # at the end

    def total(self):
        return sum(self.items)


def ship_{n}(order):
    return order.address
'''

GO = Path(__file__).with_name("pay.go").read_text("utf-8")


def by_page(report):
    return {one.path.removesuffix(".md"): one for one in report.findings}


class Repository:
    """A git repository with a base in it, whose commits are a day apart."""

    def __init__(self, environment):
        self.environment, self.root = environment, environment.project
        self.days = count()
        program = f"touch {self.root}/ran; cat"
        self.write(".gitattributes", "* filter=evil diff=evil\n")
        with (self.root / ".git/config").open("a") as config:
            config.write(f'[core]\n fsmonitor = "{program}"\n pager = "{program}"\n[diff]\n external = "{program}"\n')
            for key in ("clean", "smudge", "process"):
                config.write(f'[filter "evil"]\n {key} = "{program}"\n')
            for key in ("textconv", "command"):
                config.write(f'[diff "evil"]\n {key} = "{program}"\n')

    def commit(self, **options):
        return commit(self.root, START + next(self.days) * DAY, **options)

    def move(self, old, new):
        (self.root / new).parent.mkdir(exist_ok=True)
        (self.root / old).rename(self.root / new)

    def write(self, path, text):
        self.environment.write(path, text)

    def page(self, name, *refs, front="", body="About it.", folder="knowledge"):
        listed = "".join(f"  - {ref}  # as it was\n" for ref in refs)
        self.write(f"{folder}/{name}.md", f"---\nrefs:\n{listed}{front}---\n# {name}\n\n{body}\n")

    def edit(self, path, *pairs):
        text = (self.root / path).read_text("utf-8")
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        self.write(path, text)

    def report(self, checks=("changed",)):
        hub = synced(self.environment)
        return hub, audit(hub, checks=checks)


@pytest.fixture
def repository(environment, monkeypatch):
    """The index asks git for no ages: the keeper looks into history by itself.

    A repository may name programs that git runs to read files, or to compare them; none of them is run.
    """
    monkeypatch.setattr("kbhub.sync.sync.commit_times", lambda *_: None)
    yield Repository(environment)
    assert not (environment.project / "ran").exists()


CHANGES = {
    "body": (("return order.address", "return order.place"), "ship_{n}", True),
    "signature": (("add(self, item)", "add(self, item, n=1)"), "Cart_{n}::add", True),
    "within its class": (("return sum(self.items)", "return 0"), "Cart_{n}", True),
    "value": (("LIMIT_{n} = 3", "LIMIT_{n} = 4"), "LIMIT_{n}", True),
    "renamed": (("def ship_{n}(", "def send_{n}("), "ship_{n}", True),
    "removed": (("\n\ndef ship_{n}(order):\n    return order.address\n", ""), "ship_{n}", True),
    "the file": (("return order.address", "return None"), "", True),
    "elsewhere in the file": (("return order.address", "return None"), "Cart_{n}", False),
    "elsewhere in the class": (("return sum(self.items)", "return 0"), "Cart_{n}.add", False),
    "comment": (("  # at the end", "  # last"), "Cart_{n}::add", False),
    "docstring": (('"""Add one."""', '"""Add an item."""'), "Cart_{n}::add", False),
    "white space": (("(order):\n", "( order ):\n\n"), "ship_{n}", False),
    "comment in the file": (('"""Orders."""\n', '"""All orders."""\n\n# More.\n'), "", False),
    "nothing": (("LIMIT", "LIMIT"), "ship_{n}", False),
}

VERIFIED = ("", "2023-11-14T08:00:00+01:00", "2023-11-15T08:00")
"""Before the page was committed; and, as somebody wrote it, after that."""


SOURCES = {
    "remark": ("src/a.py - where orders go", True),
    "lines": ("src/a.py:18-19", True),
    "symbol": ("{ resource: 'src/a.py#ship_1' }", True),
    "other symbol": ("'src/a.py#Cart_1.total'", False),
    "heading": ("'price.md#Now'", True),
    "other heading": ("'price.md#Then'", False),
    "outside": ("../../../a.py", False),
}
"""The ways in which a source is written: with lines, a remark, a symbol or a heading."""


def test_the_keeper_names_exactly_the_pages_whose_code_or_source_changed(repository):
    """Fourteen kinds of change in Python, each under three pages, and some in Go: a page is found, or it is not.

    Some changes are committed, some are not, and one page was changed on a branch that was merged.
    """
    cases = [(kind, n, *case) for n, (kind, case) in enumerate([*CHANGES.items()] * 3)]
    for kind, n, _, symbol, _ in cases:
        repository.write(f"src/m{n}.py", PYTHON.format(n=n))
        front = f"verified: {{ by: human:ana, at: {VERIFIED[n % 3]} }}\n" if n % 3 else ""
        name = f"src/m{n}.py::{symbol.format(n=n)}".removesuffix("::")
        repository.page(f"{n} {kind}", name, front=front, folder="docs")
    go = {"pay": "src/pay.go::Pay", "refund": "src/pay.go::Refund", "go": "./src/pay.go", "followed": "src/pay.go"}
    missing = {"folder": ["src/"], "never there": ["src/none.py", "src/m0.py::none"]}
    for name, refs in {**{name: [ref] for name, ref in go.items()}, **missing}.items():
        repository.page(name, *refs, folder="docs")
    repository.write("src/pay.go", GO)
    repository.write("src/a.py", PYTHON.format(n=1))
    repository.write("docs/price.md", "# Price\n\n## Then\n\nIt was 2.\n\n## Now\n\nIt is 3.\n")
    for name, (source, _) in SOURCES.items():
        repository.write(f"docs/{name}.md", f"---\nverified_on: 2023-11-14\nsources:\n- {source}\n---\n# {name}\n")
    repository.write("docs/merged.md", "---\nsources: [src/a.py]\n---\n# Merged\n")
    repository.commit()
    repository.commit()
    repository.edit("docs/merged.md", ("# Merged", "# Merged page"))
    page = repository.commit(branch="page")
    repository.edit("docs/merged.md", ("# Merged page", "# Merged"))
    repository.edit("src/a.py", ("return order.address", "return None"))
    repository.edit("docs/price.md", ("It is 3.", "It is 4."))
    repository.edit("src/pay.go", ("// Pay pays.", "// Pays twice."), ("\treturn amount * 2", "    return amount * 3"))
    repository.commit()
    repository.edit("docs/merged.md", ("# Merged", "# Merged page"))
    repository.commit(also=(page,))
    repository.edit("docs/followed.md", ("About it.", "It pays more."))
    for _, n, (old, new), _, _ in cases:
        if n == len(cases) // 2:
            repository.commit()
        repository.edit(f"src/m{n}.py", (old.format(n=n), new.format(n=n)))
        if n % 3:  # after it was verified, the page got a word
            repository.edit(f"docs/{n} {cases[n][0]}.md", ("About it.", "About it all."))

    found = {name.removeprefix("docs/"): one for name, one in by_page(repository.report()[1]).items()}
    named = {f"{n} {kind}" for kind, n, *_, changed in cases if changed} | {"pay", "go", "merged"}
    assert found.keys() == named | {name for name, (_, changed) in SOURCES.items() if changed}
    assert {one.severity for name, one in found.items() if "removed" in name or "renamed" in name} == {"error"}
    assert found["0 body"].line == 3
    assert "which changed since the page was last edited." in found["0 body"].message


def short(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.slow
def test_a_moved_file_is_followed_unless_the_page_speaks_of_it(repository):
    """Moved in a commit, or just now; with a change; and, with the page itself moved, since before that."""
    for name in "abcd":
        repository.write(f"src/{name}.py", PYTHON.format(n=name))
        repository.page(name, f"src/{name}.py::Cart_{name}::add")
    repository.page("says", "src/a.py", body="It is in `src/a.py`.")
    repository.page("file", "src/a.py")
    repository.commit()
    for name in "abcd":
        repository.move(f"src/{name}.py", "lib/d.py" if name == "d" else f"src/new_{name}.py")
        if name == "b":
            repository.commit()
    repository.move("knowledge/d.md", "knowledge/e.md")
    repository.edit("src/new_c.py", (".append(item)", ".add(item)"))
    repository.edit("lib/d.py", (".append(item)", ".add(item)"))
    repository.commit()
    hub, report = repository.report()
    found = by_page(report)
    fixes = {name: one.fix.after if one.fix else None for name, one in found.items()}
    assert fixes == {
        "a": "src/new_a.py::Cart_a::add", "b": "src/new_b.py::Cart_b::add", "c": None, "e": None, "says": None,
        "file": "src/new_a.py",
    }  # fmt: skip
    assert "which vanished since the page was last edited." in found["c"].message
    assert "is now 'lib/d.py::Cart_d::add', and changed." in found["e"].message
    before = {name: (repository.root / f"knowledge/{name}.md").read_text("utf-8") for name in fixes}
    assert [change.after for change in fix(hub, report).changes] == [*filter(None, fixes.values())]
    after = {name: (repository.root / f"knowledge/{name}.md").read_text("utf-8") for name in fixes}
    assert after == {name: text.replace("src/", "src/new_") if fixes[name] else text for name, text in before.items()}


def test_a_source_with_a_hash_needs_no_history(environment):
    """Changed, gone, moved: in a base without any git, too."""
    sources = {name: f"# {name}\n\nIt costs 3.\n" for name in ("same", "other", "away", "gone")}
    for name, text in sources.items():
        environment.write(environment.home / f"notes/in/{name}.md", text)
        entry = f"  - {{ resource: /in/{name}.md, hash: {short(text)} }}  # paid\n"
        environment.write(environment.home / f"notes/{name}.md", f"---\nsources:\n{entry}---\n# {name}\n")
    environment.write(
        environment.home / "notes/foreign.md", "---\nsources:\n- {resource: in/same.md, hash: 'md5:1'}\n---\n# F\n"
    )
    bases = {"notes": environment.home / "notes"}
    assert audit(synced(environment, bases=bases), checks=["changed"]).findings == ()

    now = "# other\n\nIt costs 4.\n"
    environment.write(environment.home / "notes/in/other.md", now)
    (environment.home / "notes/in/gone.md").unlink()
    (environment.home / "notes/in/away.md").rename(environment.home / "notes/in/home.md")
    report = audit(synced(environment, bases=bases), checks=["changed"])
    assert [(one.path, one.severity, one.fix and one.fix.after) for one in report.findings] == [
        ("gone.md", "error", None),
        ("away.md", "warning", "/in/home.md"),
        ("other.md", "warning", None),
    ]
    assert f"write {short(now)!r} as its hash." in report.findings[2].remedy


@pytest.mark.slow
def test_a_hash_is_written_again_if_the_source_says_the_same(repository):
    """It got front matter; the old version is in git. Where the page has no such hash, nothing is written."""
    text, pages = "# Price\n\nIt costs 3.\n", {}
    repository.write("knowledge/price.md", text)
    for name, mark in (("page", ""), ("marked", "sha256:")):
        source = f"  - resource: /price.md\n    hash: {mark}{short(text)}  # of June\n"
        pages[name] = f"---\ntype: Reference\nsources:\n{source * 2}---\n# Page\n"
        repository.write(f"knowledge/{name}.md", pages[name])
    repository.commit()
    repository.write("knowledge/price.md", f"---\ntags: [a]\n---\n{text}")
    hub, report = repository.report()
    assert {(one.path, one.severity) for one in report.findings} == {("page.md", "info"), ("marked.md", "info")}
    fixed = fix(hub, report)
    after = {name: (repository.root / f"knowledge/{name}.md").read_text("utf-8") for name in pages}
    assert after["page"] == pages["page"].replace(short(text), short(f"---\ntags: [a]\n---\n{text}"))
    assert after["marked"] == pages["marked"]
    assert {change.before for change in fixed.changes} == {short(text)}
    assert {(one.subject, "edit it by hand" in one.message) for one in fixed.failed} == {("marked.md", True)}

    repository.write("knowledge/page.md", "# Page\n")
    assert "edit it by hand" in fix(hub, report).failed[0].message


def test_a_source_that_says_that_it_is_replaced_is_found(environment):
    environment.write("knowledge/price.md", "---\nstatus: superseded by price-2\n---\n# Price\n")
    environment.write("knowledge/plain.md", "---\nsources: [price.md]\n---\n# Plain\n")
    (found,) = audit(synced(environment), checks=["changed"]).findings
    assert (found.path, "is superseded by price-2." in found.message) == ("plain.md", True)


def test_a_clone_without_its_history_is_said_to_be_one(repository):
    repository.write("src/a.py", PYTHON.format(n=1))
    repository.page("a", "src/a.py")
    repository.commit()
    repository.write("src/a.py", "x = 1\n")
    (repository.root / ".git/shallow").write_text(repository.commit() + "\n")
    (note,) = repository.report()[1].notes
    assert note == "project: 1 entries without a hash not compared, because the clone has no whole history."


def test_keep_ends_with_1_if_something_may_be_untrue(environment, kbhub):
    """A plain audit finds what it found before; what is only worth a look does not fail."""
    environment.write("src/a.py", "x = 1\n")
    entry = f"{{resource: src/a.py, hash: {short('x = 1' + chr(10))}}}"
    environment.write("knowledge/a.md", f"---\nsources: [{entry}]\n---\n# A\n")
    assert kbhub("audit", "--keep", "--json", code=0).json["checks"] == [*KEPT]
    environment.write("src/a.py", "x = 2\n")
    assert kbhub("audit", code=0)
    assert "changed: `sources` names 'src/a.py', which changed since" in kbhub("audit", "--keep", code=1).out
    assert kbhub("audit", "--keep", "--fail-on", "error", code=0)


def test_a_newer_memory_may_contradict_one_until_it_is_confirmed(environment, clock):
    hub = environment.hub(clock=clock)
    old = remember(hub, "The nightly backup of the orders runs at 02:00.").memory
    clock.pass_days(1)
    new = remember(hub, "The nightly backup of the orders now runs at 04:00.").memory
    assert new.may_supersede == (old.id,)
    (found,) = audit(hub, checks=["contradicted"]).findings
    assert (found.ref, found.severity, found.others) == (old.ref, "warning", (new.ref,))
    clock.pass_days(1)
    remember(hub, old.text or "The nightly backup of the orders runs at 02:00.", id=old.id)
    assert audit(hub, checks=["contradicted"]).findings == ()


OTHERWISE = {
    "number": ("Uploads time out after 30 seconds.", "Uploads now time out after 120 seconds.", True),
    "day": (
        "The weekly release train leaves on Thursday.",
        "- The weekly release train leaves on [Tuesday](https://a.example/2).",
        True,
    ),
    "word": ("A pull request needs one reviewer.", "A pull request needs two reviewers.", True),
    "time": ("The `nightly` backup starts at 02:00.", "The nightly backup starts at **04:30**.", True),
    "the same": ("The search cluster has 3 replicas.", "The search cluster has 3 replicas.", False),
    "another order": ("Retry the upload at 5, 10 and 20 s.", "Retry the upload at 20, 10 and 5 s.", False),
    "another subject": ("The search cluster has 3 replicas.", "The cache cluster has 5 replicas.", False),
    "more values": ("Access tokens are valid for 60 minutes.", "10 access tokens are valid for 15 minutes.", False),
    "a name": ("It takes the `sha256` hash of a string.", "It takes the `sha512` hash of a string.", False),
    "few words": ("Rooms: 20", "Rooms: 30", False),
    "since when": ("We deploy on Tuesdays.", "Since March 2026, we deploy on Thursdays.", True),
    "versions in code": ('```yaml hl_lines="4" plugins:', '```yaml hl_lines="2" plugins:', False),
}


@pytest.mark.parametrize(("old", "new", "named"), OTHERWISE.values(), ids=OTHERWISE)
def test_a_newer_page_contradicts_an_older_one_with_another_value(environment, old, new, named):
    environment.write("knowledge/a.md", f"---\ndate: 2026-05-01\n---\n# Old\n\n{old}\n")
    environment.write("knowledge/b.md", f"---\nverified: {{ by: human:ana, at: 2026-06-01 }}\n---\n# New\n\n{new}\n")
    found = audit(synced(environment), checks=["contradicted"]).findings
    assert [(one.path, one.line, one.others) for one in found] == [("a.md", 6, ("b.md",))] * named


@pytest.mark.parametrize(
    ("front", "more"),
    [
        ("date: 2026-05-01", "See [the other](b.md)."),
        ("date: 2026-05-01\nsuperseded_by: b.md", ""),
        ("date: 2026-05-01\nverified: 2026-06-01T00:00:00Z", ""),
        ("", ""),
    ],
    ids=["linked", "superseded", "verified as late", "without a date"],
)
def test_no_page_contradicts_one(environment, front, more):
    environment.write("knowledge/a.md", f"---\n{front}\n---\nUploads time out after 30 seconds.\n\n{more}\n")
    environment.write("knowledge/b.md", "---\ndate: 2026-06-01\n---\nUploads time out after 120 seconds.\n")
    assert audit(synced(environment), checks=["contradicted"]).findings == ()


@pytest.mark.parametrize(
    ("numbers", "path", "text"),
    [
        ((6, 7), "updating/{}-0.md", "Version {0} supports React 1{0}."),
        (range(1, 6), "{}.md", "# Part {0}\n\nThis lesson typically takes {0}0 minutes."),
    ],
    ids=["pages on two versions", "a phrase of many pages"],
)
def test_pages_that_are_alike_contradict_none(environment, numbers, path, text):
    for number in numbers:
        environment.write(
            f"knowledge/{path.format(number)}", f"---\ndate: 2026-05-0{number}\n---\n{text.format(number)}\n"
        )
    assert audit(synced(environment), checks=["contradicted"]).findings == ()


def test_a_gap_is_found_where_its_answer_belongs(environment, clock):
    """In a page that answers in part; a question that no page is near is only noted."""
    environment.write("knowledge/cache.md", "# Cache\n\nSessions are kept for an hour.\n")
    hub = synced(environment, clock=clock)
    for text in ("who restores backups and how long does it take", "who waters the office plants"):
        for _ in range(6):
            query = Query(text=text)
            record(hub, hub.search(query), query, None)
            clock.now += 600
    maintain(hub)
    environment.write("knowledge/backups.md", "# Nightly\n\nBackups of the database are made every night.\n")
    hub.sync()
    report = audit(hub, checks=["gaps"])
    assert [(one.path, one.severity, one.line) for one in report.findings] == [("backups.md", "info", 1)]
    assert "'who restores backups and how long does it take', which was asked 6 times." in report.findings[0].message
    assert "plants" in report.notes[0]
