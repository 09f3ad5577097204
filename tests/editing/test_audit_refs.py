"""What a document says it is about is looked up in the project: the file, and the symbol as a definition."""

import os

import pytest

from conftest import synced
from kbhub.editing.audit import audit
from kbhub.reading.code_references import Code, Sources

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
    code = Code("x.py", PYTHON)

    assert {name: code.look_up(name.split("::")).found for name in symbols.split()} == dict.fromkeys(
        symbols.split(), found
    )


def test_a_symbol_of_another_language_is_there_if_the_file_names_it_and_what_was_meant_is_suggested():
    """As a whole word; so it is in Python that does not parse."""
    code = Code("x.go", GO)
    broken = Code("x.py", "class A:\n    def b(self):\n        print 'x'\n")

    found = [code.look_up(names).found for names in (["Cart", "Add"], ["Item"], ["Cart", "ad"])]
    assert found == ["defined", "missing", "missing"]
    assert [broken.look_up(names).found for names in (["A", "b"], ["c"])] == ["defined", "missing"]

    assert Code("x.py", PYTHON).look_up(["Shop", "sel"]).near == "sell"
    assert Code("x.go", GO).look_up(["Cartt"]).near == "Cart"


@pytest.mark.parametrize("text", ["(" * 100_000, "-" * 200_000 + "1", "\0", "a." * 100_000 + "b"])
@pytest.mark.parametrize("name", ["x.py", "x.js"])
def test_no_source_file_makes_it_fail(name, text):
    assert Code(name, text + "\n" + "x(" * 3000).look_up(["x", "y"]).found == "missing"


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
