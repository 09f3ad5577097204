"""The files of a base: which are taken, which are not and why, and that no path leads out."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import make_repository
from kbhub.documents.filters import parse_rules
from kbhub.documents.walk import Limits, excluded_by, open_contained, scan
from kbhub.errors import BaseUnavailable, PathNotContained
from kbhub.hub import Hub, HubOptions
from kbhub.types import Base

MEGABYTE = 1_000_000


def put(folder: Path, *paths: str, text: str = "text\n") -> None:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def a_base(folder: Path, **more) -> Base:
    return Base(id="b", path=folder, origin="config", **more)


def look(folder: Path, *, max_bytes=MEGABYTE, max_files=1000, **more):
    return scan(a_base(folder, **more), Limits(max_bytes, max_files))


def taken(folder: Path, **more) -> list[str]:
    found = look(folder, **more)
    assert found.skipped == ()
    return list(found.files)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "base"
    made.mkdir()
    return made


def test_markdown_files_are_taken_in_order_and_a_base_that_is_gone_or_a_file_is_an_error(folder):
    put(folder, "b.md", "a/z.md", "a.md", "a-b.md", "c.markdown", "d.MDX", "E.Md")
    make_repository(folder / "a")  # whose documents belong to the base all the same
    found = look(folder)
    assert list(found.files) == sorted(["E.Md", "a-b.md", "a.md", "a/z.md", "b.md", "c.markdown", "d.MDX"])
    assert found.files["a/z.md"] == (5, (folder / "a/z.md").stat().st_mtime_ns)
    for path in (folder / "missing", folder / "a.md"):
        with pytest.raises(BaseUnavailable, match=r"b: Cannot read the folder: .*(No such|Not a dir)"):
            look(path)


@pytest.mark.parametrize("base", [".knowledge", "node_modules/base"])
def test_a_base_whose_own_folder_is_hidden_is_not_hidden(tmp_path, base):
    put(tmp_path / base, "a.md", "node_modules/b.md")
    assert taken(tmp_path / base) == ["a.md"]


OTHERS = "a.md b.txt c.tex sub/d.txt notes/e notes/x.png"
HIDDEN = ".env .notes.txt .a.md .github/x.txt"
DRAFTS = "a.md drafts/b.md x/drafts/c.md x/d.md old-1.md"
PARTS = "README.md other.md docs/a.md docs/x/b.md docs2/c.md src/d.md"


@pytest.mark.parametrize(
    ("files", "rules", "left"),
    [
        (OTHERS, {"include": ("*.txt",)}, "a.md b.txt sub/d.txt"),
        (OTHERS, {"include": ("/*.txt", "notes/")}, "a.md b.txt notes/e notes/x.png"),
        (OTHERS, {"include": ("notes/", "!*.png")}, "a.md notes/e"),
        (HIDDEN, {"include": ("*", "**")}, ""),  # only where it names the dot
        (HIDDEN, {"include": (".a.md", ".*.txt")}, ".a.md .notes.txt"),
        (DRAFTS, {"exclude": ("drafts/", "old-*")}, "a.md x/d.md"),
        (DRAFTS, {"exclude": ("*.md", "!x/d.md")}, "x/d.md"),
        # it wins over `include`, and cannot undo an ignore file
        ("a.txt b.md .gitignore", {"include": ("*.txt",), "exclude": ("a.txt", "!b.md")}, ""),
        (PARTS, {"only": ("README.md", "docs")}, "README.md docs/a.md docs/x/b.md"),
        (PARTS, {"only": ("docs/x",)}, "docs/x/b.md"),
    ],
)
def test_a_base_takes_and_leaves_what_it_says(folder, files, rules, left):
    put(folder, *files.split(), text="b.md\n")
    assert taken(folder, **rules) == left.split()


@pytest.mark.parametrize(
    ("files", "rules", "left"),
    [
        (  # at every level, with comments and line ends of Windows
            "a.md log/x.md sub/a.md sub/b.md sub/deep/b.md sub/deep/c.md",
            {".gitignore": "# comment\n\nlog/\r\n/a.md\n", "sub/.kbhubignore": "b.md\n"},
            "sub/a.md sub/deep/c.md",
        ),
        # a later file has the last word
        ("a.md b.md", {".gitignore": "a.md\n", ".kbhubignore": "!a.md\nb.md\n"}, "a.md"),
        # taking a folder back does not take back its files
        ("sub/a.md sub/b.markdown", {".gitignore": "*.md\n!sub\n!sub/\n"}, "sub/b.markdown"),
        # naming what is wanted
        ("a.md x/y/b.md x/y/c.txt", {".kbhubignore": "*\n!*/\n!*.md\n"}, "a.md x/y/b.md"),
        # a base that keeps itself out of git is not empty for that
        ("a.md b.md", {".gitignore": "*\nb.md\n"}, "a.md"),
        ("a.md b.md", {".gitignore": "*\nb.md\n", ".kbhubignore": "*\n"}, ""),
        # a byte order mark is not part of the first rule
        ("a.md", {".gitignore": "\ufeffa.md\n"}, ""),
    ],
)
def test_ignore_files_count_as_in_git(folder, files, rules, left):
    put(folder, *files.split())
    for path, text in rules.items():
        put(folder, path, text=text)
    assert taken(folder, include=("*.txt",)) == left.split()


def test_rules_of_enclosing_folders_count_up_to_the_git_root(tmp_path):
    root = tmp_path / "repo"
    base = root / "docs/knowledge"
    put(base, "a.md", "draft.md", "tmp/b.md")
    put(tmp_path, ".gitignore", text="a.md\n")
    put(root, ".gitignore", text="/docs/knowledge/tmp/\n")
    put(root / "docs", ".kbhubignore", text="draft.md\n")
    assert taken(base) == ["a.md", "draft.md", "tmp/b.md"]
    (root / ".git").mkdir()
    assert taken(base) == ["a.md"]


@pytest.mark.parametrize(
    "rule",
    [
        "knowledge", "knowledge/", "/local/knowledge/", "knowledge/*", "knowledge/**", "/local/knowledge/**/*", "*",
        "**", "*/", ".*\nknow*", "local/",
    ],
)  # fmt: skip
def test_rules_that_exclude_the_base_itself_or_a_folder_above_do_not_count(tmp_path, rule):
    base = tmp_path / "local/knowledge"
    put(base, "a.md", "sub/b.md", "secret.md")
    (tmp_path / ".git").mkdir()
    put(tmp_path, ".gitignore", text=f"{rule}\nsecret.md\n")
    assert taken(base) == ["a.md", "sub/b.md"]


def test_ignore_files_that_are_links_pipes_or_nonsense_have_no_rules(folder):
    put(folder, "a.md", "one/b.md", "two/c.md")
    (folder / "one/.gitignore").symlink_to(folder / "rules")
    put(folder, "rules", text="*.md\n")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "two/.gitignore")
    (folder / ".gitignore").write_bytes(b"\xff\xfe\n[z-a]\na\\\n!\n/\n[\n\x00\n")
    assert taken(folder) == ["a.md", "one/b.md", "two/c.md"]


@pytest.mark.parametrize("rule", ["*a" * 30 + "*b", "**/" * 4 + "*a" * 20 + "c", "[a-z]*" * 30 + "!", "?*" * 40 + "!"])
def test_a_rule_made_to_take_for_ever_takes_no_time(folder, rule):
    put(folder, "a" * 200 + ".md", "/".join(["a" * 20] * 30) + "/a.md")
    (folder / ".gitignore").write_text(f"{rule}\n")
    assert len(taken(folder)) == 2


segments = st.sampled_from(
    ["a", "b", "*", "a*", "*b", "**", "?", "[a|b]", "[!a]", "a.md", "*.md", "*a*", "b\\|a", "[^b]", "*a*b*", ".a"]
)
patterns = st.builds(
    lambda mark, start, parts, end: f"{mark}{start}{'/'.join(parts)}{end}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(segments, min_size=1, max_size=4),
    st.sampled_from(["", "", "/", " "]),
)
TREE = [
    *("a", "b.md", "b|a", "ab/a.md", "ab/b", "a.md/ab/a.md", "a.md/b|a", ".a/ab", ".a/.a/a.md", "bab/a/b"),
    "bab/a.md/a.md/ba",
]


CHARACTERS = [chr(code) for code in range(1, 127) if chr(code) not in "/\n\r"]
CLASSES = ["alpha", "digit", "alnum", "lower", "upper", "xdigit", "blank", "space", "cntrl", "punct", "graph", "print"]
BRACKETS = [*(f"[[:{name}:]]" for name in CLASSES), "[^[:alnum:]_]", "[![:punct:]a]", "[[x]"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what the rules are compared with")
@settings(max_examples=2)  # the first of which is the simplest
@given(
    st.lists(
        st.tuples(st.lists(patterns, min_size=1, max_size=4), st.lists(patterns, max_size=2)), min_size=40, max_size=60
    )
)
def test_ignore_files_mean_what_git_takes_them_to_mean(rules):
    """Trees side by side in one repository, so that git is asked once; and brackets, character by character."""
    # A base leaves hidden files out and does not count `*` in its own .gitignore; here neither is asked.
    everything = [any(not rule.negated and rule.matches("\x01", directory=False) for rule in parse_rules(outer, "o"))
                  for outer, _ in rules]  # fmt: skip
    names = [f"a{character}.md" for character in CHARACTERS]
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        make_repository(top)
        for number, (outer, inner) in enumerate(rules):
            put(top / f"t{number}", *TREE)
            put(top / f"t{number}", ".gitignore", text="\n".join(outer) + "\n")
            put(top / f"t{number}/ab", ".gitignore", text="\n".join(inner) + "\n")
        for number, brackets in enumerate(BRACKETS):
            put(top, f"b{number}/.gitignore", text=f"a{brackets}.md\n")
        asked = [f"t{number}/{path}" for number in range(len(rules)) for path in TREE]
        asked += [f"b{number}/{name}" for number in range(len(BRACKETS)) for name in names]
        check = ["git", "-C", name, "check-ignore", "-z", "--stdin"]
        ignored = set(subprocess.check_output(check, input="\0".join(asked), text=True).split("\0"))
        for number in (number for number, all_of_it in enumerate(everything) if not all_of_it):
            ours = look(top / f"t{number}", include=("**", ".*")).files
            assert [path for path in TREE if path in ours] == [
                path for path in TREE if f"t{number}/{path}" not in ignored and not path.startswith(".a/")
            ]
    for number, brackets in enumerate(BRACKETS):
        (rule,) = parse_rules([f"a{brackets}.md"], "i")
        assert [name for name in names if rule.matches(name, directory=False)] == [
            name for name in names if f"b{number}/{name}" in ignored
        ], brackets


@pytest.mark.parametrize(
    ("name", "most", "setting"),
    [
        (".md", 10, "fileBytes"),
        (".pdf", 20, "pdfBytes"),
        (".docx", 30, "convertedBytes"),
        (".jsonl", 40, "sessionBytes"),
    ],
)
def test_a_file_above_the_limit_of_its_kind_is_reported_and_one_at_it_is_taken(folder, name, most, setting):
    put(folder.parent, "config.json", text=f'{{"limits": {{"{setting}": {most}}}}}')
    limits = Hub(HubOptions(config=folder.parent / "config.json")).limits()
    put(folder, f"at{name}", text="x" * most)
    put(folder, f"above{name}", text="x" * (most + 1))
    put(folder, "big.png", text="x" * 1000)
    base = a_base(folder, kind="session" if name == ".jsonl" else "document")
    found = scan(base, limits)
    reason = excluded_by(base, f"above{name}", limits)
    assert list(found.files) == [f"at{name}"]
    assert [problem.message for problem in found.skipped] == [f"above{name}: {reason}."]
    assert excluded_by(base, f"at{name}", limits) is None
    assert reason.startswith(f"it has {most + 1} bytes, but the limit is {most} (`limits.{setting}`")


def test_above_the_limit_of_files_the_rest_is_left_out_with_one_problem(folder):
    put(folder, *(f"{number:02}.md" for number in range(20)), "sub/x.md")
    found = look(folder, max_files=7)
    assert list(found.files) == [f"{number:02}.md" for number in range(7)]
    (problem,) = found.skipped
    assert "more than 7 files" in problem.message
    assert look(folder, max_files=21).skipped == ()


def test_a_tree_that_is_deeper_than_any_is_cut_and_the_list_of_what_was_skipped_has_an_end(folder):
    put(folder, f"{'/'.join(['d'] * 150)}/a.md", "d/b.md")
    found = look(folder)
    assert list(found.files) == ["d/b.md"]
    assert "levels deep" in found.skipped[0].message
    put(folder, *(f"{number}.md" for number in range(300)))
    found = look(folder, max_bytes=1)
    assert len(found.skipped) == 201
    assert "More files were skipped" in found.skipped[-1].message


def test_links_that_lead_out_are_skipped_and_reported(folder, tmp_path):
    put(tmp_path, "secret.md", "dir/x.md", "base2/y.md")
    put(folder, "real/a.md", text="12345678")
    links = {"link.md": "real/a.md", "a.md": tmp_path / "secret.md", "b": tmp_path / "dir", "c": "../base2"}
    for name, target in {**links, "d.png": tmp_path / "secret.md", "e.md": "a.md"}.items():
        (folder / name).symlink_to(target)
    found = look(folder)
    assert list(found.files) == ["link.md", "real/a.md"]
    assert found.files["link.md"][0] == 8
    assert [problem.subject for problem in found.skipped] == ["a.md", "b", "c", "e.md"]
    assert all("leads out of the base" in problem.message for problem in found.skipped)


def test_links_that_lead_round_or_nowhere_end(folder):
    put(folder, "sub/a.md")
    (folder / "sub/up").symlink_to("..")
    (folder / "self").symlink_to("self")
    (folder / "x.md").symlink_to("y.md")
    (folder / "y.md").symlink_to("x.md")
    (folder / "gone.md").symlink_to("missing.md")
    found = look(folder)
    assert list(found.files) == ["sub/a.md"]
    assert [problem.subject for problem in found.skipped] == ["gone.md", "x.md", "y.md"]


def test_a_folder_is_read_once_and_by_its_own_name(folder):
    """A link from a part of a folder brings what lies inside the base."""
    put(folder, "z.md/a.md")
    (folder / "a-link").symlink_to("z.md")
    (folder / "b-link").symlink_to("z.md")
    assert taken(folder) == ["z.md/a.md"]
    put(folder, "docs/a.md", "guide/b.md", "guide/sub/c.md", "src/d.md")
    (folder / "docs/guide").symlink_to("../guide")
    (folder / "docs/again").symlink_to("../guide/sub")
    (folder / "docs/all").symlink_to("..")
    assert taken(folder, only=("docs",)) == ["docs/a.md", "docs/again/c.md", "docs/guide/b.md"]


def test_a_link_does_not_bring_in_what_is_left_out_under_its_own_name(folder):
    put(folder, ".git/config", "private/x.md", "build/y.md", ".obsidian/z.md", "a.md")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "config.md").symlink_to(".git/config")
    (folder / "y.md").symlink_to("build/y.md")
    (folder / "out").symlink_to("build")
    (folder / "z").symlink_to(".obsidian")
    put(folder, ".env")
    (folder / "env.md").symlink_to(".env")
    found = look(folder, exclude=("private/",))
    assert list(found.files) == ["a.md"]
    assert len(found.skipped) == 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_skipped_and_reported_and_opening_it_does_not_hang(folder):
    os.mkfifo(folder / "a.md")
    with pytest.raises(OSError, match="Not a regular file"):
        open_contained(a_base(folder), "a.md")
    put(folder, "b.md")
    (folder / "c.md").symlink_to("a.md")
    found = look(folder)
    assert list(found.files) == ["b.md"]
    assert [problem.subject for problem in found.skipped] == ["a.md", "c.md"]


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX users")
def test_a_folder_that_cannot_be_listed_is_reported_and_the_rest_is_taken():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        put(root, "a.md", "closed/b.md", "open/c.md")
        (root / "closed").chmod(0)
        user = os.geteuid()
        os.seteuid(user or 65534)  # root may read everything
        found = look(root)
        os.seteuid(user)
        (root / "closed").chmod(0o700)
    assert list(found.files) == ["a.md", "open/c.md"]
    assert found.unlisted == ("closed",)
    assert [problem.subject for problem in found.skipped] == ["closed"]


ESCAPES = [
    "../secret.md", "sub/../../secret.md", "sub/../a.md", "/etc/passwd", "..", ".", "", "a\0b", "./a.md", "sub//a.md",
    "sub/", "//x", "sub/./a.md",
]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_is_none_inside_the_base_is_refused(folder, path):
    put(folder.parent, "secret.md")
    put(folder, "a.md", "sub/a.md")
    with pytest.raises(PathNotContained):
        open_contained(a_base(folder), path)


@pytest.mark.parametrize("base", ["base", "link-to-base"])
def test_a_link_that_leads_out_is_refused_and_one_inside_is_followed(folder, tmp_path, base):
    """Also out of a base that is itself reached through a link, and into one whose name starts alike."""
    put(tmp_path, "secret.md", "dir/x.md", "base-private/x.md")
    put(folder, "sub/a.md", text="x\r\ny")
    links = {"out.md": "../secret.md", "dir": tmp_path / "dir", "in": "sub", "x.md": "../base-private/x.md"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (tmp_path / "link-to-base").symlink_to(folder)
    opened = a_base(tmp_path / base)
    for path in ("out.md", "dir/x.md", "x.md"):
        with pytest.raises(PathNotContained):
            open_contained(opened, path)
    for path in ("in/a.md", "sub/a.md"):
        with open_contained(opened, path) as file:
            assert file.read() == b"x\r\ny"


def test_no_folder_on_the_way_stays_open(folder):
    put(folder, "sub/deep/a.md")
    place = Path("/proc/self/fd")
    before = len(list(place.iterdir())) if place.exists() else 0
    open_contained(a_base(folder), "sub/deep/a.md").close()
    for path in ("sub/gone/a.md", "sub/deep/gone.md"):
        with pytest.raises(FileNotFoundError):
            open_contained(a_base(folder), path)
    assert (len(list(place.iterdir())) if place.exists() else 0) == before


def test_what_is_no_file_or_does_not_belong_to_a_base_of_parts_is_not_opened(folder):
    put(folder, "sub/a.md", "docs/a.md", "docs2/x.md")
    (folder / "self").symlink_to(".")
    base, parts = a_base(folder), a_base(folder, only=("docs",))
    open_contained(parts, "docs/a.md").close()
    for error, said, where, paths in (
        (PathNotContained, None, parts, ("sub/a.md", "docs2/x.md")),
        (IsADirectoryError, None, base, ("sub", "self")),
        (FileNotFoundError, None, base, ("missing.md", "missing/a.md", "\ud800.md", "\udcff.md")),
        (OSError, r"Not a directory|too long", base, ("sub/a.md/x", "x" * 5000)),
    ):
        for path in paths:
            with pytest.raises(error, match=said):
                open_contained(where, path)


pieces = st.sampled_from(["..", ".", "", "a.md", "sub", "out", "up", "secret.md", "\\", "~", "C:", "\0", "é", "out.md"])
hostile = (
    st.lists(pieces, max_size=6).map("/".join) | st.text(max_size=30) | st.builds("/{}".format, st.text(max_size=9))
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A base with links out of it beside files that must never be read."""
    top = tmp_path_factory.mktemp("guarded")
    put(top, "secret.md", "a.md", "sub/a.md", "sub/secret.md", text="SECRET")
    put(top / "base", "a.md", "sub/a.md", text="inside")
    (top / "base/out").symlink_to(top)
    (top / "base/out.md").symlink_to("../secret.md")
    (top / "base/sub/up").symlink_to("..")
    return a_base(top / "base")


@given(path=hostile)
def test_no_string_opens_anything_outside_the_base(guarded, path):
    try:
        file = open_contained(guarded, path)
    except (PathNotContained, OSError):
        return
    with file:
        assert file.read() == b"inside"


@given(path=hostile)
def test_any_string_can_be_asked_about(guarded, path):
    limits = Limits(MEGABYTE, 100)
    reason = excluded_by(guarded, path, limits)
    assert (reason is None) == (path in scan(guarded, limits).files)


REASONS = {
    "a.md": None, "sub/b.md": None, "link.md": None, "x.txt": None, ".hidden.md": "it is hidden",
    ".obsidian/a.md": "the folder '.obsidian' is hidden",
    "node_modules/a.md": "folders called 'node_modules' are skipped",
    "a.png": "files of its kind are only taken if `include` names them",
    "big.md": r"it has 600 bytes, but the limit is 500",
    "drafts/a.md": r"'drafts' is excluded by 'drafts/' in exclude",
    "sub/log.md": r"'sub/log.md' is excluded by '\*.md' in .*/sub/.gitignore",
    "build/a.md": r"'build' is excluded by '/build' in .*/base/.kbhubignore", "out.md": "it is outside the base",
    "../a.md": "it is outside the base", "secret.md": "the folder '.obsidian' is hidden",
    "folder/b.md": "the base has it as 'sub/b.md'", "missing.md": r"it cannot be opened \(No such file",
}  # fmt: skip


def test_what_keeps_a_file_out_is_said_in_words(folder, tmp_path):
    put(folder, "a.md", "sub/b.md", "sub/log.md", "x.txt", ".hidden.md", ".obsidian/a.md", "node_modules/a.md", "a.png")
    put(folder, "big.md", text="x" * 600)
    put(folder, "drafts/a.md", "build/a.md")
    put(tmp_path, "a.md")
    put(folder, ".kbhubignore", text="/build\n")
    put(folder, "sub/.gitignore", text="*.md\n!b.md\n")
    links = {"link.md": "a.md", "out.md": tmp_path / "a.md", "secret.md": ".obsidian/a.md", "folder": "sub"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    base = a_base(folder, include=("*.txt",), exclude=("drafts/",))
    limits = Limits(500, 100)
    files = scan(base, limits).files
    for path, reason in REASONS.items():
        found = excluded_by(base, path, limits)
        assert (found is None) == (reason is None) == (path in files)
        assert reason is None or re.match(reason, found)
