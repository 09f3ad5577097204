"""Documents are created, changed and appended to as asked, and found at once."""

import errno
import hashlib
import os
import re
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock

import kbhub.sync.sync
from conftest import NOON, synced, write_two_bases
from kbhub.editing.documents import write_document
from kbhub.editing.trash import delete_document
from kbhub.errors import BaseNotFound, DocumentChanged, DocumentNotFound, PathNotContained, UsageError, WriteRefused
from kbhub.types import Base, Query
from kbhub.workspace.files import open_folder
from trees import snapshot

pytestmark = pytest.mark.usefixtures("no_pause")


ROLLBACK = Path(__file__).with_name("rollback.md").read_text("utf-8")


@pytest.fixture
def shop(environment):
    """A project with a document, and two global bases of which one is writable."""
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n")
    environment.write(environment.home / "fixed" / "law.md", "# Law\n")
    write_two_bases(environment)
    return environment


@pytest.fixture
def hub(shop):
    return synced(shop, clock=lambda: NOON)


def bytes_of(environment, path):
    return (environment.project / "knowledge" / path).read_bytes()


def found(hub, words):
    return [hit.ref for hit in hub.search(Query(text=words, mode="keyword")).hits]


def test_a_new_document_has_default_front_matter_over_which_given_keys_win_and_is_found_at_once(hub, shop):
    done = write_document(hub, "guides/cache", text="# Cache\n\nEvict the platypus first.\n", client="codex")
    assert bytes_of(shop, "guides/cache.md") == (
        b"---\ntags: []\nsource: codex\ncreated: 2025-11-22\n---\n\n# Cache\n\nEvict the platypus first.\n"
    )
    assert (done.action, done.ref, done.before, done.indexed) == ("created", "guides/cache.md", None, True)
    assert done.hash == hashlib.sha256(bytes_of(shop, "guides/cache.md")).hexdigest()[:12]
    assert (done.start_line, done.end_line) == (7, 9)
    assert found(hub, "platypus") == ["guides/cache.md"]
    assert done.docid == hub.search(Query(text="platypus", mode="keyword")).hits[0].docid
    assert done.warnings == ()

    # A key that is none removes a default.
    keys = {"tags": ["a", "b c"], "source": None, "version": "1.10", "due": "2026-01-02"}
    write_document(hub, "a.md", text="# A", front_matter=keys, client="codex")
    assert bytes_of(shop, "a.md") == (
        b"---\ntags: [a, b c]\ncreated: 2025-11-22\nversion: '1.10'\ndue: 2026-01-02\n---\n\n# A\n"
    )
    text = "---\r\nstatus: draft # mine\r\n---\r\n# B\r\n"
    write_document(hub, "b.md", text=text, client="codex")
    write_document(hub, "c.md", text=text, front_matter={"status": "done"})
    assert bytes_of(shop, "b.md") == text.encode()
    assert bytes_of(shop, "c.md") == text.replace("draft", "done").encode()


def test_a_new_document_waits_for_who_makes_the_first_index_however_many_files_that_has(shop, monkeypatch):
    shop.configure(limits={"freshenFiles": 0})
    hub, sync_base = shop.hub(), kbhub.sync.sync.sync_base
    lock = FileLock(f"{hub.index(hub.select()[0]).path}.lock")

    def until_it_is_made(*args, **how):
        report = sync_base(*args, **how)
        lock.release()
        return report

    monkeypatch.setattr(kbhub.sync.sync, "sync_base", until_it_is_made)
    Path(lock.lock_file).parent.mkdir(parents=True)
    with lock:
        assert write_document(hub, "cache", text="# Cache\n\nEvict the platypus first.\n").indexed
    assert found(hub, "platypus") == ["cache.md"]


@pytest.mark.parametrize(
    ("ref", "error", "told"),
    [
        ("note@x.md", BaseNotFound, "Did you mean notes@x.md, or project@note@x.md for a file of that name?"),
        ("wiki@x.md", BaseNotFound, "Did you mean project@wiki@x.md for a file of that name?"),
        ("memory@x.md", WriteRefused, "`remember`"),
        ("user@x.md", WriteRefused, "`remember`"),
    ],
)
def test_a_slip_in_the_id_of_a_base_makes_no_file(hub, shop, ref, error, told):
    """It would lie in the project, where nobody looks for it."""
    before = snapshot(shop.project)
    for mode in ("create", "append"):
        with pytest.raises((error, DocumentNotFound)) as caught:
            write_document(hub, ref, text="# X\n", mode=mode)
        assert (told if mode == "create" else "no base") in str(caught.value)
    assert snapshot(shop.project) == before


def test_creating_never_touches_what_is_there_and_another_base_is_written_where_the_user_says_so(hub, shop):
    before = snapshot(shop.project / "knowledge")
    for ref in ("rollback.md", "rollback", "Rollback.md"):
        with pytest.raises(WriteRefused):
            write_document(hub, ref, text="# New")
    assert snapshot(shop.project / "knowledge") == before

    write_document(hub, "notes@emacs", text="# Emacs")
    assert (shop.home / "notes" / "emacs.md").exists()
    for told, act in (
        ('"writable": true', lambda: write_document(hub, "fixed@x", text="# X")),
        ('"writable": true', lambda: delete_document(hub, "fixed@law.md")),
        ("is read-only", lambda: write_document(hub, "fixed@law.md", text="x", mode="append")),
    ):
        with pytest.raises(WriteRefused, match=told):
            act()


def test_read_only_takes_writing_away_and_a_document_larger_than_the_limit_is_not_written(shop):
    hub = shop.hub(env={**shop.env, "KBHUB_READ_ONLY": "true"})
    append = partial(write_document, hub, "rollback.md", text="x", mode="append")
    for act in (partial(write_document, hub, "x", text="# X"), append, partial(delete_document, hub, "rollback.md")):
        with pytest.raises(WriteRefused, match="KBHUB_READ_ONLY"):
            act()
    hub = shop.hub(env={**shop.env, "KBHUB_LIMITS__FILE_BYTES": "400"})
    with pytest.raises(WriteRefused, match="400"):
        write_document(hub, "rollback", text="x" * 300, mode="append")
    with pytest.raises(WriteRefused, match="400"):
        write_document(hub, "new", text="x" * 400)


def test_docs_and_a_project_base_outside_the_repository_are_not_written(environment):
    """A folder that was found, not chosen, is left alone."""
    environment.write("docs/guide.md", "# Guide\n")
    hub = environment.hub()
    with pytest.raises(WriteRefused, match="kbhub init"):
        write_document(hub, "docs/new.md", text="# New")
    (environment.project.parent / "shop.knowledge").mkdir()
    hub = environment.hub()
    with pytest.raises(WriteRefused, match="kbhub base trust --writable"):
        write_document(hub, "x", text="# X")
    hub.trust.add(environment.project.parent / "shop.knowledge", environment.project.parent / "shop.knowledge", True)
    assert write_document(environment.hub(), "x", text="# X").action == "created"


def test_without_a_project_base_a_base_must_be_named(shop):
    (shop.project / "knowledge").rename(shop.project / "other")
    with pytest.raises(BaseNotFound, match="notes"):
        write_document(shop.hub(), "x", text="# X")


ESCAPING = [
    "../out", "a/../../out", "a/../b", "/etc/x", "\\\\server\\x", "C:\\x", "c:x.md", "~/x", "x\0.md", "",
    "notes@../x",
]  # fmt: skip
USELESS = [
    *("a//b", "a/./b", ".git/x", ".GIT/hooks/x", "git~1/x", ".kbhub.json", ".kbhubignore", ".hidden/x", ".hidden"),
    *("node_modules/x", "CON", "nul.md", "lpt1.txt.md", "aux /x", "folder./x", "folder /x", "x/ y", "x?.md", "a\\b"),
    *("stream.md:hidden", "bell\x07", "gp\u202enj.md", "zero\u2060width", "half\ud800", "x" * 300, "/".join("x" * 120)),
    *("script.sh", "notes.txt", ".md", "a/.md", "#a1b2c3", "rollback.md/x", "ignored/x"),
]


def test_hostile_and_useless_paths_are_refused(hub, shop):
    shop.write("knowledge/.gitignore", "/ignored/\n")
    kept = (shop.home.parent / "cache", shop.home.parent / "data")
    before = snapshot(shop.home.parent, leaving_out=kept)
    for ref in (*ESCAPING, *USELESS):
        with pytest.raises(PathNotContained if ref in ESCAPING else WriteRefused):
            write_document(hub, ref, text="# X")
        assert before == snapshot(shop.home.parent, leaving_out=kept), ref


def test_names_that_people_use_are_taken_and_a_folder_that_differs_by_case_is_named(hub, shop):
    for ref in ("日本語/メモ", "v1.2", "C# notes", "project@a@b", "naïve", "می‌خواهم", "./x", "ADR-001.MD"):
        done = write_document(hub, ref, text="# Xylophone\n")
        assert done.indexed
        assert done.ref in found(hub, "xylophone")
        assert write_document(hub, done.ref, text="more", mode="append").action == "appended"
    # One of the two could not be checked out elsewhere.
    write_document(hub, "Guides/a", text="# A")
    with pytest.raises(WriteRefused, match="'Guides'"):
        write_document(hub, "guides/b", text="# B")


def test_a_link_out_of_the_base_is_never_written_through(hub, shop, tmp_path):
    outside = shop.write(shop.home / "secret" / "x.md", "# Secret\n")
    (shop.project / "knowledge" / "out").symlink_to(outside.parent)
    (shop.project / "knowledge" / "link.md").symlink_to(outside)
    before = snapshot(outside.parent)
    for act in (
        lambda: write_document(hub, "out/new", text="# X"),
        lambda: write_document(hub, "out/x.md", text="x", mode="append"),
        lambda: write_document(hub, "link.md", text="x", mode="append"),
        lambda: write_document(hub, "link.md", text="x"),
        lambda: delete_document(hub, "out/x.md"),
        lambda: delete_document(hub, "link.md"),
    ):
        with pytest.raises((WriteRefused, PathNotContained)):
            act()
    assert snapshot(outside.parent) == before


def test_a_folder_that_became_a_link_meanwhile_is_none_of_the_base(tmp_path):
    base = Base(id="b", path=tmp_path / "base", origin="config")
    (tmp_path / "out").mkdir()
    base.path.mkdir()
    (base.path / "in").symlink_to(tmp_path / "out")
    with pytest.raises(PathNotContained), open_folder(base, ["in"]):
        pass


def test_a_document_that_cannot_be_created_leaves_no_folders(hub, shop, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kbhub.workspace.files.Folder.create", full)
    with pytest.raises(WriteRefused, match="No space left"):
        write_document(hub, "new/deep/x", text="# X")
    assert not (shop.project / "knowledge" / "new").exists()


def test_a_link_inside_the_base_is_written_through(hub, shop):
    link = shop.project / "knowledge" / "undo.txt.md"
    link.symlink_to("rollback.md")
    write_document(hub, "undo.txt.md", text="The end.", mode="append")
    assert link.is_symlink()
    assert bytes_of(shop, "rollback.md") == ROLLBACK.encode() + b"\nThe end.\n"
    with pytest.raises(WriteRefused, match=r"rollback\.md"):
        delete_document(hub, "undo.txt.md")


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="needs openat")
def test_a_folder_that_turns_into_a_link_is_not_followed(hub, shop):
    """Whoever swaps a folder for a link at any moment gets nothing written where it leads."""
    inside, outside = shop.project / "knowledge" / "sub", shop.home / "secret"
    aside = shop.project / "knowledge" / "aside"
    outside.mkdir()
    inside.mkdir()
    stop = threading.Event()

    def swap():
        link = partial(inside.symlink_to, outside)
        steps = (partial(inside.rename, aside), link, inside.unlink, partial(aside.rename, inside))
        while not stop.is_set():
            for step in steps:
                with suppress(OSError):  # a writer has made the folder anew in between
                    step()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(40):
            try:
                write_document(hub, f"sub/{number}", text="# X")
            except (WriteRefused, PathNotContained):
                continue
    finally:
        stop.set()
        thread.join()
    assert list(outside.iterdir()) == []


def together(count, act):
    """Run something in threads that start at one moment, each with its number."""
    start = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda number: (start.wait(), act(number))[1], range(count)))


def test_of_many_creators_one_wins(shop):
    hubs = [shop.hub(clock=lambda: NOON) for _ in range(8)]

    def create(number):
        try:
            write_document(hubs[number], "race", text=f"# Runner {number}\n")
        except WriteRefused:
            return None
        return number

    (won,) = set(together(len(hubs), create)) - {None}
    assert f"# Runner {won}\n".encode() in bytes_of(shop, "race.md")


def test_writers_at_once_lose_nothing(shop):
    hubs = [shop.hub() for _ in range(3)]

    def append(number):
        for turn in range(3):
            write_document(hubs[number], "rollback.md", text=f"- {number}.{turn}", mode="append", section="Log")

    together(3, append)
    lines = bytes_of(shop, "rollback.md").decode().splitlines()
    assert {f"- {number}.{turn}" for number in range(3) for turn in range(3)} <= set(lines)


def test_text_is_appended_to_a_section_proper_and_a_subsection_below_the_others(hub, shop):
    """Above its first subsection, in the list that is there, and nothing else changes; with a heading, at the end."""
    done = write_document(hub, "rollback", text="- 2025-11-22 Cy", mode="append", section="log")
    expected = ROLLBACK.replace("- 2025-01-01 Ada\n", "- 2025-01-01 Ada\n- 2025-11-22 Cy\n")
    assert bytes_of(shop, "rollback.md").decode() == expected
    assert expected.splitlines()[done.start_line - 1 : done.end_line] == ["- 2025-11-22 Cy"]
    write_document(hub, "rollback", text="### Oldest\n\n- 2023", mode="append", section="Rolling back > Log")
    expected = expected.replace("## See also", "### Oldest\n\n- 2023\n\n## See also")
    assert bytes_of(shop, "rollback.md").decode() == expected


def test_a_section_that_is_not_there_is_named_with_those_that_are_and_headings_in_code_are_none(hub, shop):
    with pytest.raises(WriteRefused, match="`See also`"):
        write_document(hub, "rollback", text="x", mode="append", section="History")
    shop.write("knowledge/two.md", "# A\n\n## Log\n\n# B\n\n## Log\n")
    with pytest.raises(WriteRefused, match="'A > Log' or 'B > Log'"):
        write_document(hub, "two", text="x", mode="append", section="Log")
    write_document(hub, "two", text="x", mode="append", section="A > Log")
    assert bytes_of(shop, "two.md") == b"# A\n\n## Log\n\nx\n\n# B\n\n## Log\n"

    shop.write("knowledge/code.md", "# A\n\n```sh\n# Log\n```\n\n# Log\n\nold\n")
    write_document(hub, "code", text="new", mode="append", section="Log")
    assert bytes_of(shop, "code.md") == b"# A\n\n```sh\n# Log\n```\n\n# Log\n\nold\n\nnew\n"
    shop.write("knowledge/open.md", "# A\n\n```sh\nls\n")
    with pytest.raises(WriteRefused, match="line 3"):
        write_document(hub, "open", text="new", mode="append")
    with pytest.raises(WriteRefused, match="without closing"):
        write_document(hub, "rollback", text="```\nls", mode="append", section="Log")


def test_updating_a_section_the_body_or_keys_leaves_the_rest(hub, shop):
    write_document(hub, "rollback", text="See the wiki.", mode="update", section="See also")
    assert bytes_of(shop, "rollback.md").decode() == ROLLBACK.replace("Nothing.", "See the wiki.")
    write_document(hub, "rollback", text="## See too\n\nNothing.", mode="update", section="See also")
    assert bytes_of(shop, "rollback.md").decode() == ROLLBACK.replace("See also", "See too")
    done = write_document(hub, "rollback", text="# Rolling back\n\nCall Ada.\n", mode="update")
    head = ROLLBACK[: ROLLBACK.index("# Rolling")]
    assert bytes_of(shop, "rollback.md").decode() == head + "# Rolling back\n\nCall Ada.\n"
    assert done.warnings == ("The replaced text contained: `Log`, `Older`, `See too`.",)
    write_document(hub, "rollback", front_matter={"Owner": "Bo", "tags": None}, mode="update")
    assert bytes_of(shop, "rollback.md").startswith(b"---\n# who to ask\nowner: Bo   # until May\n---\n# Rolling")


def test_what_is_as_asked_already_is_not_written_and_the_mode_of_a_file_stays_and_a_write_protected_one_too(hub, shop):
    file = shop.project / "knowledge" / "rollback.md"
    before = file.stat()
    done = write_document(hub, "rollback", front_matter={"owner": "Ada", "tags": ["ops", "runbook"]}, mode="update")
    assert (done.action, done.before) == ("unchanged", done.hash)
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    file.chmod(0o640)
    write_document(hub, "rollback", text="x", mode="append")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["rollback.md"]
    file.chmod(0o440)
    with pytest.raises(WriteRefused, match="read-only"):
        write_document(hub, "rollback", text="y", mode="append")


def test_line_endings_stay_what_does_not_decode_is_left_alone_and_a_text_with_front_matter_is_a_document(hub, shop):
    """An edit would write replacement characters over its bytes."""
    shop.write("knowledge/old.md", b"\xff\xfe" + "# Ö\r\n\r\ntext".encode("utf-16-le"))
    write_document(hub, "old", text="mehr\nText\n", mode="append")
    assert bytes_of(shop, "old.md") == b"\xff\xfe" + "# Ö\r\n\r\ntext\r\n\r\nmehr\r\nText".encode("utf-16-le")
    shop.write("knowledge/latin.md", "# Caf\xe9\n".encode("latin-1"))
    with pytest.raises(WriteRefused, match="lose bytes"):
        write_document(hub, "latin", text="x", mode="append")
    assert bytes_of(shop, "latin.md") == b"# Caf\xe9\n"

    shop.write("knowledge/broken.md", "---\na: [\n---\nText.\n")
    with pytest.raises(WriteRefused, match="not valid YAML"):
        write_document(hub, "broken", front_matter={"a": 1}, mode="update")
    with pytest.raises(WriteRefused, match="not valid YAML"):
        write_document(hub, "broken", text="New.", mode="update")
    write_document(hub, "broken", text="---\na: []\n---\nNew.\n", mode="update")
    assert bytes_of(shop, "broken.md") == b"---\na: []\n---\nNew.\n"
    done = write_document(hub, "x", text="---\na: [\n---\nText.\n")
    assert bytes_of(shop, "x.md") == b"---\na: [\n---\nText.\n"
    assert any("not valid YAML" in warning for warning in done.warnings)


def test_a_stale_edit_is_refused_and_changes_need_a_document_that_is_there(hub, shop):
    first = write_document(hub, "rollback", text="one", mode="append")
    second = write_document(hub, "rollback", text="two", mode="append", based_on=first.hash[:8])
    with pytest.raises(DocumentChanged, match=second.hash):
        write_document(hub, "rollback", text="three", mode="append", based_on=first.hash)
    with pytest.raises(DocumentChanged, match=second.hash):
        delete_document(hub, "rollback", based_on=first.hash)
    with pytest.raises(UsageError, match="8 to 64"):
        write_document(hub, "rollback", text="three", mode="append", based_on="abc")
    assert hashlib.sha256(bytes_of(shop, "rollback.md")).hexdigest().startswith(second.hash)

    # One in another base must be named in full; a docid names one too.
    with pytest.raises(DocumentNotFound, match="notes@vim"):
        write_document(hub, "vim.md", text="x", mode="append")
    with pytest.raises(DocumentNotFound):
        write_document(hub, "none.md", text="x", mode="update")
    docid = hub.search(Query(text="rollback", mode="keyword")).hits[0].docid
    write_document(hub, docid, text="By docid.", mode="append")
    assert bytes_of(shop, "rollback.md").endswith(b"By docid.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"text": ""}, {"text": "x", "section": "A"}, {"text": "x", "based_on": "0123456789ab"},
        {"text": "x", "mode": "append", "based_on": "abc"}, {"mode": "append"},
        {"mode": "append", "front_matter": {"a": 1}}, {"mode": "update"}, {"mode": "update", "text": " \n"},
        {"mode": "update", "section": "Log", "front_matter": {"a": 1}}, {"mode": "replace", "text": "x"},
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_meant_are_refused_in_words_of_every_edge(hub, shop, arguments):
    """Nothing is written; a person has no parameter of that name, an agent no option."""
    before = snapshot(shop.project / "knowledge")
    for ref in ("rollback.md", "new.md"):
        with pytest.raises((UsageError, DocumentNotFound)) as caught:
            write_document(hub, ref, **arguments)
        assert isinstance(caught.value, UsageError) or ref == "new.md"
        assert not re.search(r"`(text|front_matter|based_on|\w+_document)`|--", str(caught.value))
    assert snapshot(shop.project / "knowledge") == before


def test_what_a_reader_would_stumble_over_is_said(hub, shop):
    shop.write("src/app.py", "class Shop:\n    def sell(self): ...\n")
    text = "# Rolling Back\n\n[a](gone.md) [b](rollback.md#log) [[Vanished]] [c](notes@vim.md) ![i](../src/app.py)\n"
    keys = {
        "tags": ["Op", "Runbooks", "fresh"],
        "related": ["rollback", "nowhere", "notes@vim", "[[rollback#Steps|back]]"],
        "refs": ["src/app.py::Shop::sell", "src/app.py::Shop::buy", "src/gone.py", "../x.py"],
    }
    done = write_document(hub, "new", text=text, front_matter=keys)
    assert set(done.warnings) == {
        "Line 10: the link to 'gone.md' is broken.",
        "Line 10: the link to 'Vanished' is broken.",
        "`related` names 'nowhere', which is not a document.",
        "`refs` names 'src/app.py::Shop::buy', but the file has no 'buy'.",
        "`refs` names 'src/gone.py', but the file does not exist.",
        "`refs` names '../x.py', but it is outside the project.",
        "The tag 'Op' is new, but 'ops' already exists (documents: 1).",
        "The tag 'Runbooks' is new, but 'runbook' already exists (documents: 1).",
        "rollback.md has almost the same title, 'Rolling back'; one document is easier to maintain than two.",
    }


def test_what_a_killed_process_left_is_swept_later(hub, shop):
    """Old halves go; one that may still be written stays."""
    folder = shop.project / "knowledge"
    old, new = folder / ".kbhub-0123456789abcdef.tmp", folder / ".kbhub-fedcba9876543210.tmp"
    for file in (old, new):
        Path(file).write_text("half")
    os.utime(old, (1, 1))
    write_document(hub, "x", text="# X")
    assert not old.exists()
    assert new.exists()
