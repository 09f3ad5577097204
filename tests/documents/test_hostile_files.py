"""Whatever a file of a project or of the user says, the answer is knowledge or one problem that is told."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import make_environment
from kbhub.documents.filters import parse_rules
from kbhub.errors import ConfigError
from kbhub.render.bases import status_report
from kbhub.render.report import model_answer
from kbhub.workspace import git
from kbhub.workspace.config import parse_jsonc
from kbhub.workspace.settings import MAX_RULES

LONG = "x" * 300
"""A name that no file system takes."""

SHORT, MANY = 12, 500
"""Examples of a fuzz that always runs, and of one that takes long."""

ANSWER_CHARACTERS = 5000
"""Most that `status` says of a project with one document, however much its files say."""

PATIENT = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}

TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        [
            LONG, "x/" * 3000,
            *("\0", "a\0b", "\ud800", "\udc80x", "..", "../..", "/", "~", "~root", ".", "", " ", "\n"), "knowledge",
            "./knowledge/..", ".git", "/dev/null", "/proc/self/fd/0", ".kbhub.json", "\u202eknowledge", "[",
            "[" * 3000, "[z-a]", "*" * 3000, "*a" * 1000, "**/" * 40, "(" * 500, "\\", "!", "#", "[[:alpha:]]",
            "y" * 100_000,
        ]
    ),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
        st.sampled_from([10**400, -(10**30), 2**63, 1e308]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
LISTS = st.one_of(VALUES, st.lists(TEXTS, max_size=6))
OBJECTS = st.one_of(VALUES, st.dictionaries(TEXTS, TEXTS, max_size=6))
BASE = {
    **dict.fromkeys(("knowledge", "cacheDir", "name", "description"), st.one_of(TEXTS, VALUES)),
    **dict.fromkeys(("include", "exclude", "keepDeleted"), LISTS),
    **dict.fromkeys(("weight", "writable", "kind", "enabled"), VALUES),
    "contexts": OBJECTS,
    LONG: VALUES,
}
POINTERS = st.one_of(VALUES, st.fixed_dictionaries({}, optional=BASE))
GROUPS = ("search", "embedder", "expansion", "rerank", "answers", "memory", "limits", "serve", "log", "distil")
CONFIGS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {"bases": st.one_of(VALUES, st.dictionaries(TEXTS, st.fixed_dictionaries({}, optional=BASE), max_size=3))},
        optional={
            "repos": st.one_of(OBJECTS, st.dictionaries(TEXTS, LISTS, max_size=3)),
            "contexts": OBJECTS,
            **dict.fromkeys(("docsFallback", "readOnly", "tools", LONG), VALUES),
            **dict.fromkeys(GROUPS, st.dictionaries(TEXTS, VALUES, max_size=2)),
        },
    ),
)


class Shop:
    """A project with one document, and a base of the user's with another, in a folder that is deleted afterwards."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        place = self.place = make_environment(Path(self._folder.name))
        place.write("knowledge/alpha.md", "# Alpha\n\nkraken\n")
        place.write(str(place.home / "notes" / "beta.md"), "# Beta\n\nkraken\n")
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def hub(self):
        """Open a hub in which the user's base is active whatever the files say."""
        return self.place.hub(bases={"mine": self.place.home / "notes"})

    def check(self):
        """Ask everything, and give what is said of the state of things."""
        hub = self.hub()
        hub.sync()
        result = hub.search("kraken")
        assert "mine@beta.md" in [hit.ref for hit in result.hits]
        result.model_dump_json()
        status = hub.status()
        status.model_dump_json()
        said = model_answer(status_report(status))[0]
        assert len(said) <= ANSWER_CHARACTERS
        said.encode()
        return status


POINTER, CONFIG = ".kbhub.json", "~/.kbhub.json"
WRONG = [
    *((POINTER, json.dumps(said), ["project"]) for said in (
        *({"knowledge": LONG}, {"cacheDir": "x/" * 1900}, {"knowledge": "\ud800"}, {"name": "\udc80"}),
        *({"include": ["*.md"] * (MAX_RULES + 1)}, {"knowledge": "loop"}, {"enabled": 10**400}, ["knowledge"], None),
    )),
    *((POINTER, said, ["project"]) for said in (
        *("", '{"a":' * 5000, '{"a":' * 990 + "1" + "}" * 990, '{"name":' * 990 + "1" + "}" * 990),
        *('{"knowledge": ' + "9" * 5000 + "}", '{"knowledge": "' + '\\"' * 400_000, "/*" * 300_000, "\xff"),
        *('{"knowledge": NaN}', '{"name": ' + "[" * 600 + "]" * 600 + "}"),
    )),
    (POINTER, '{"x": 1e999}', [POINTER]),  # an unknown field
    *((CONFIG, json.dumps({"embedder": {"model": model}}), ["embedder.model"])
      for model in (f"/{LONG}", f"./{LONG}", "~/loop", "~nobody/x")),
    *((".git/config", f'[remote "origin"]\n\turl = {url}\n', [])
      for url in (f"/{LONG}", "../" + "x/" * 4000, "\xff", "loop")),
    *(("knowledge/.gitignore", rules, [])
      for rules in ("[" * 300_000, "[a\n" * 100_000, "*a" * 150_000, "\0\xff" * 1000, "a\n" * 150_000)),
]  # fmt: skip
"""File, what it says in Latin-1, and what there are problems with."""


@pytest.mark.parametrize(("file", "said", "subjects"), WRONG, ids=[f"{file} {said[:40]!r}" for file, said, _ in WRONG])
def test_what_cannot_be_followed_is_one_problem_or_as_good_as_none(file, said, subjects):
    """It costs no minutes, and the documents are found."""
    with Shop() as shop:
        for folder in (shop.place.home, shop.place.project):
            (folder / "loop").symlink_to("loop")
        place = shop.place.home / file[2:] if file == CONFIG else shop.place.project / file
        place.write_bytes(said.encode("latin-1"))
        status = shop.check()
    assert [Path(one.subject).name for one in status.problems] == subjects
    assert file == POINTER or status.bases[0].documents == 1


def test_unknown_fields_by_the_thousand_are_a_short_list_and_a_folder_that_is_none_a_problem_of_its_base():
    with Shop() as shop:
        (shop.place.project / ".kbhub.json").write_text(json.dumps({f"{n}{LONG}": n for n in range(3000)}))
        problems = shop.check().problems
        assert len(problems) == 11
        assert "2990 more" in problems[-1].message

        (shop.place.project / ".kbhub.json").unlink()
        (shop.place.home / "loop").symlink_to("loop")
        config = {"bases": {"round": "~/loop", "long": f"~/{LONG}"}, "repos": {"*": ["round", "long"], LONG: "round"}}
        (shop.place.home / ".kbhub.json").write_text(json.dumps(config))
        problems = shop.check().problems
    assert sorted(one.subject for one in problems) == ["long", "round"]


@pytest.mark.parametrize(
    "said",
    ["", LONG, *(f"gitdir: {place}" for place in (f"/{LONG}", "x/" * 3000, "a\0b", "\xff", ".", "loop"))],
    ids=lambda said: said[:20],
)
def test_a_git_file_that_leads_nowhere_is_as_good_as_none(said, monkeypatch):
    if said:  # git itself is asked once
        monkeypatch.setattr(git, "_git", lambda *_, **__: None)
    with Shop() as shop:
        shutil.rmtree(shop.place.project / ".git")
        (shop.place.project / "loop").symlink_to("loop")
        (shop.place.project / ".git").write_bytes(said.encode("latin-1"))
        assert [base.base.id for base in shop.check().bases] == ["project", "mine"]


def test_rules_that_do_not_count_are_told_and_a_text_without_an_end_takes_no_time_by_its_square():
    with Shop() as shop:
        file = shop.place.write("knowledge/.kbhubignore", "".join(f"{n}.md\n" for n in range(MAX_RULES + 1)))
        (problem,) = shop.check().bases[0].problems
    assert str(MAX_RULES) in problem.message
    assert str(file) in problem.message

    with pytest.raises(ConfigError, match="malformed JSON"):
        parse_jsonc('{"a": "' + '\\"' * 500_000, "x")
    assert parse_rules(("[" * 1_000_000,), "x") == ()


def pointers_are_followed_or_refused(pointer):
    with Shop() as shop:
        (shop.place.project / ".kbhub.json").write_text(json.dumps(pointer))
        status = shop.check()
    assert all(len(one.message) < 2000 for one in status.problems)
    if all(one.base.id != "project" for one in status.bases):
        off = isinstance(pointer, dict) and pointer.get("enabled") is False
        assert off or "project" in [one.subject for one in status.problems]


def configs_are_followed_or_refused(config):
    """What is wrong is what every answer says."""
    with Shop() as shop:
        (shop.place.home / ".kbhub.json").write_text(json.dumps(config))
        hub = shop.hub()
        wrong = None
        try:
            hub.discovery()
        except ConfigError as error:
            wrong = str(error)
        if wrong is not None:
            assert len(wrong) < 2000
            for call in (hub.status, lambda: hub.search("kraken"), lambda: hub.read("beta.md")):
                with pytest.raises(ConfigError):
                    call()
            return
        status = hub.status()
        status.model_dump_json()
        model_answer(status_report(status))[0].encode()


def documents_are_found_whatever_stands_above_them(front):
    """What cannot be read is at most one problem of the document."""
    with Shop() as shop:
        shop.place.write("knowledge/front.md", b"---\n" + front + b"\n---\n# Front\n\nzebra\n")
        shop.check()
        hub = shop.hub()
        found = hub.search("zebra")
        assert "front.md" in [hit.ref for hit in found.hits]
        problems = [one for base in hub.status().bases for one in base.problems]
        assert len([one for one in problems if one.subject == "front.md"]) <= 1


LINES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda key, value: f"{key}: {value}".encode("utf-8", "surrogatepass"),
        st.sampled_from(
            ["tags", "aliases", "title", "date", "updated", "related", "source", "expires", "status", LONG]
        ),
        st.one_of(
            TEXTS.filter(lambda text: len(text) < 10_000),
            VALUES.map(json.dumps).filter(lambda text: len(text) < 10_000),
            st.sampled_from(
                ["[" * 200, "{a: " * 60, "&a [*a]", "!!python/object:x {}", "9" * 5000, "9999-99-99", ".inf"]
            ),
        ),
    ),
)
FRONT = st.lists(LINES, max_size=6).map(b"\n".join)


CHECKS = {
    "pointer": (pointers_are_followed_or_refused, POINTERS),
    "config": (configs_are_followed_or_refused, CONFIGS),
    "front matter": (documents_are_found_whatever_stands_above_them, FRONT),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [SHORT, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("check", "values"), CHECKS.values(), ids=CHECKS)
def test_any_files_end_nothing(check, values, examples):
    settings(max_examples=examples, **PATIENT)(given(values)(check))()
