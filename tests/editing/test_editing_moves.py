"""Documents are deleted, brought back and renamed without loss."""

import json
import os
import stat

import pytest

from conftest import DAY, NOON, synced, write_two_bases
from kbhub.editing.documents import write_document
from kbhub.editing.renames import rename
from kbhub.editing.trash import delete_document, empty_trash, restore
from kbhub.errors import BaseNotFound, DocumentNotFound, KbhubError, PathNotContained, UsageError, WriteRefused
from kbhub.memory.changes import forget, remember
from kbhub.workspace.files import ABANDONED_SECONDS
from kbhub.workspace.trash import Trash
from test_editing import found
from trees import snapshot

pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture
def shop(environment):
    """A project whose documents link to each other, a writable base and one that is not."""
    environment.write("knowledge/rollback.md", "# Rolling back\r\n\r\nAsk the platypus.\r\n")
    environment.write(
        "knowledge/index.md",
        "---\nrelated: [rollback, 'guides/deploy']  # both\n---\n# Index\n\n"
        'See [how](rollback.md#log "Title") and [[rollback|undo]], `[[rollback]]`, [x][r].\n\n'
        "```\n[no](rollback.md)\n```\n\n[r]: <rollback.md>\n",
    )
    environment.write("knowledge/guides/deploy.md", "# Deploy\n\n![p](img/a.png) [back](../rollback.md) [[index]]\n")
    environment.write("knowledge/guides/img/a.png", b"PNG")
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n\n[there](project@rollback.md)\n")
    environment.write(environment.home / "fixed" / "law.md", "# Law\n\n[[project@rollback]]\n")
    write_two_bases(environment)
    return environment


@pytest.fixture
def hub(shop):
    return synced(shop, clock=lambda: NOON)


def text_of(environment, path):
    return (environment.project / "knowledge" / path).read_bytes().decode()


def test_a_deleted_document_comes_back_as_it_was(hub, shop):
    """Bytes and mode; search forgets and finds it at once; nobody else reads the trash."""
    file = shop.project / "knowledge" / "rollback.md"
    file.chmod(0o640)
    before = file.read_bytes()
    done = delete_document(hub, "rollback")
    assert not file.exists()
    assert (done.ref, done.indexed, found(hub, "platypus")) == ("rollback.md", True, [])
    assert set(done.broken) == {
        "index.md:6", "index.md (related)", "guides/deploy.md:3", "notes@vim.md:3", "fixed@law.md:3",
    }  # fmt: skip
    (entry,) = Trash(hub.data).documents()
    assert (entry.id, entry.path, entry.base, entry.deleted) == (
        done.trash, "rollback.md", "project", "2025-11-22T12:00:00+00:00",
    )  # fmt: skip
    root = shop.home.parent / "data" / "trash"
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)

    back = restore(hub, done.trash)
    assert (back.ref, back.hash, back.indexed) == ("rollback.md", done.hash, True)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (before, 0o640)
    assert found(hub, "platypus") == ["rollback.md"]
    assert Trash(hub.data).documents() == ()


def test_restoring_never_overwrites(hub, shop):
    """Not a file of the same name, not one that differs by case, not through a link."""
    delete_document(hub, "guides/deploy.md")
    write_document(hub, "guides/Deploy.md", text="# New")
    with pytest.raises(WriteRefused, match=r"Deploy\.md"):
        restore(hub, "guides/deploy.md")
    delete_document(hub, "guides/Deploy.md")
    folder = shop.project / "knowledge" / "guides"
    folder.rename(shop.home / "guides")
    folder.symlink_to(shop.home / "guides")
    before = snapshot(shop.home / "guides")
    with pytest.raises((WriteRefused, PathNotContained)):
        restore(hub, "guides/deploy.md")
    assert snapshot(shop.home / "guides") == before
    assert len(Trash(hub.data).documents()) == 2


def test_the_one_deleted_last_is_restored_by_its_ref_and_a_base_that_is_not_active_gets_nothing_back(shop):
    """A folder that went meanwhile is made again."""
    for moment, text in ((NOON, "# One"), (NOON + 1, "# Two")):
        hub = shop.hub(clock=lambda moment=moment: moment)
        write_document(hub, "drafts/a", text=text)
        delete_document(hub, "drafts/a")
    (shop.project / "knowledge" / "drafts").rmdir()
    restore(hub, "drafts/a.md")
    assert "# Two" in text_of(shop, "drafts/a.md")
    with pytest.raises(KbhubError, match="`kbhub doc restore`"):
        restore(hub, "drafts/b.md")

    delete_document(shop.hub(), "notes@vim.md")
    shop.configure()
    with pytest.raises(WriteRefused, match="notes"):
        restore(shop.hub(), "notes@vim.md")


def test_a_broken_entry_of_the_trash_hides_nothing_else(hub, shop):
    delete_document(hub, "rollback")
    root = shop.home.parent / "data" / "trash"
    for name, text in (("bad", "{"), ("other", json.dumps({"id": "../../x"}))):
        (root / name).mkdir()
        (root / name / "entry.json").write_text(text)
    (root / "file").write_text("x")
    assert [entry.ref for entry in Trash(hub.data).documents()] == ["rollback.md"]


def test_only_what_a_killed_process_left_is_swept_from_the_trash(hub, shop):
    """Whatever else lies there, such as forgotten memories, is somebody's."""
    root = shop.home.parent / "data" / "trash"
    unfinished, half_removed, foreign = (root / name for name in (".new-0a", "20251121-120000-0a1b2c", "kept"))
    for folder in (unfinished, half_removed, foreign):
        folder.mkdir(parents=True)
        (folder / "document").write_text("x")
    forgotten = forget(hub, [remember(hub, "Releases need the VPN.").memory.id]).trash
    for folder in root.iterdir():
        os.utime(folder, (folder.stat().st_mtime - 2 * ABANDONED_SECONDS,) * 2)
    (root / ".new-0b").mkdir()  # another process is at it
    entry = delete_document(hub, "rollback").trash
    assert {folder.name for folder in root.iterdir()} == {".new-0b", foreign.name, forgotten.name, entry}
    assert len(list(forgotten.glob("*.md"))) == 1


def test_emptying_one_trash_leaves_the_other(shop):
    """Documents and memories lie in one folder, and each kind goes when its own time is over."""
    hub = shop.hub(clock=lambda: NOON)
    forgotten = forget(hub, [remember(hub, "Releases need the VPN.").memory.id]).trash
    delete_document(hub, "rollback")
    assert len(empty_trash(hub)) == 1
    assert len(list(forgotten.glob("*.md"))) == 1
    delete_document(hub, "index")
    later = shop.hub(clock=lambda: NOON + 31 * DAY)
    kept = forget(later, [remember(later, "Cats sleep.").memory.id]).trash
    assert [file.name.partition("-")[0] for file in kept.glob("*.md")] == ["cats"]
    assert [entry.ref for entry in Trash(later.data).documents()] == ["index.md"]


def test_a_document_gets_another_path(hub, shop):
    """Byte for byte, found at once, and the links that broke are listed with what they should be."""
    before = text_of(shop, "rollback.md")
    index = text_of(shop, "index.md")
    done = rename(hub, "rollback", "runbooks/undo")
    assert text_of(shop, "runbooks/undo.md") == before
    assert not (shop.project / "knowledge" / "rollback.md").exists()
    assert (done.before, done.ref, done.indexed, done.updated) == ("rollback.md", "runbooks/undo.md", True, False)
    assert found(hub, "platypus") == ["runbooks/undo.md"]
    assert text_of(shop, "index.md") == index
    assert {(link.ref, link.line, link.before, link.after) for link in done.links} == {
        ("index.md", 6, "rollback.md#log", "runbooks/undo.md#log"),
        ("index.md", 6, "rollback", "undo"),
        ("index.md", 12, "<rollback.md>", "<runbooks/undo.md>"),
        ("index.md", None, "rollback", "runbooks/undo"),
        ("guides/deploy.md", 3, "../rollback.md", "../runbooks/undo.md"),
        ("notes@vim.md", 3, "project@rollback.md", "project@runbooks/undo.md"),
        ("fixed@law.md", 3, "project@rollback", "project@runbooks/undo"),
    }


def test_links_are_mended_on_request(hub, shop):
    """Nothing else in those documents changes; what may not be written is named."""
    old = text_of(shop, "index.md")
    done = rename(hub, "rollback", "runbooks/undo it.md", update_links=True)
    assert text_of(shop, "index.md") == old.replace("(rollback.md#log", "(runbooks/undo%20it.md#log").replace(
        "and [[rollback|", "and [[undo it|"
    ).replace("<rollback.md>", "<runbooks/undo it.md>").replace("[rollback, ", "[runbooks/undo it, ")
    assert "(../runbooks/undo%20it.md)" in text_of(shop, "guides/deploy.md")
    assert "(project@runbooks/undo%20it.md)" in (shop.home / "notes" / "vim.md").read_text()
    assert (shop.home / "fixed" / "law.md").read_text() == "# Law\n\n[[project@rollback]]\n"
    assert [problem.subject for problem in done.not_updated] == ["fixed@law.md"]
    shop.write(shop.home / "fixed" / "law.md", "# Law\n")
    assert delete_document(hub, "runbooks/undo it.md").broken == (
        "guides/deploy.md:3", "index.md:6", "index.md (related)", "notes@vim.md:3",
    )  # fmt: skip


def test_a_moved_document_keeps_its_own_links_and_a_name_that_differs_by_case_alone_is_another_name(hub, shop):
    done = rename(hub, "guides/deploy.md", "ops/eu/", update_links=True)
    assert done.ref == "ops/eu/deploy.md"
    assert text_of(shop, "ops/eu/deploy.md") == (
        "# Deploy\n\n![p](../../guides/img/a.png) [back](../../rollback.md) [[index]]\n"
    )
    assert "related: [rollback, 'ops/eu/deploy']  # both" in text_of(shop, "index.md")
    done = rename(hub, "rollback.md", "Rollback.md")
    assert done.ref == "Rollback.md"
    names = {file.name for file in (shop.project / "knowledge").iterdir()}
    assert ("Rollback.md" in names, "rollback.md" in names) == (True, False)


def test_a_path_that_a_document_may_not_have_is_refused(hub, shop):
    kept = (shop.home.parent / "cache", shop.home.parent / "data")
    before = snapshot(shop.home.parent, leaving_out=kept)
    for error, names in {
        WriteRefused: "index.md Index.md notes@rollback.md memory@rollback.md .git/x x.sh con",
        UsageError: "rollback.md",
        PathNotContained: "../rollback.md",
        BaseNotFound: "note@rollback.md note@guides/",
    }.items():
        for name in names.split():
            with pytest.raises(error):
                rename(hub, "rollback.md", name)
    assert before == snapshot(shop.home.parent, leaving_out=kept)
    with pytest.raises(WriteRefused, match="writable"):
        rename(hub, "fixed@law.md", "rule.md")
    with pytest.raises(DocumentNotFound):
        rename(hub, "gone.md", "here.md")
    assert rename(hub, "notes@vim.md", "editors/vim.md").ref == "notes@editors/vim.md"
    assert (shop.home / "notes" / "editors" / "vim.md").exists()


ALL_KINDS = (
    "---\nrelated: [csharp.md]\n---\n# X\n\n[[csharp]] ![[csharp.md#log|see]] [it](csharp.md 'T')\n"
    "[it](<csharp.md#log>) [it][r]\n\n[r]: csharp.md\n"
)


@pytest.mark.parametrize(
    ("new", "name", "path"),
    [
        ("p%20q.md", "p%2520q", "p%2520q.md"),
        ("100%.md", "100%", "100%25.md"),
        ("a[b].md", "a%5Bb%5D", "a%5Bb%5D.md"),
        ("x`y.md", "x%60y", "x%60y.md"),
    ],
)
def test_a_mended_link_is_read_as_the_new_path(hub, shop, new, name, path):
    shop.write("knowledge/csharp.md", "# Sharp\n")
    shop.write("knowledge/x.md", ALL_KINDS)
    hub.sync()
    done = rename(hub, "csharp.md", new, update_links=True)
    entry = f"'{new}'" if "[" in new else new
    assert done.not_updated == ()
    assert text_of(shop, "x.md") == (
        f"---\nrelated: [{entry}]\n---\n# X\n\n[[{name}]] ![[{name}.md#log|see]] [it]({path} 'T')\n"
        f"[it](<{path}#log>) [it][r]\n\n[r]: {path}\n"
    )
    assert delete_document(hub, new).broken == ("x.md:6", "x.md:7", "x.md (related)")


@pytest.mark.parametrize("update_links", [True, False])
def test_a_document_with_one_link_that_cannot_be_mended_is_named(hub, shop, update_links):
    """The others are updated; an entry of `related` ends at the sign that stands before a heading."""
    shop.write("knowledge/csharp.md", "# Sharp\n")
    shop.write("knowledge/x.md", ALL_KINDS)
    hub.sync()
    done = rename(hub, "csharp.md", "C#.md", update_links=update_links)
    (problem,) = done.not_updated
    assert (problem.subject, "`related`" in problem.message, "line" in problem.message) == ("x.md", True, False)
    assert {(link.line, link.after) for link in done.links} == {
        (6, "C%23"), (6, "C%23.md"), (6, "C%23.md"), (7, "<C%23.md#log>"), (9, "C%23.md"),
    }  # fmt: skip
    assert text_of(shop, "x.md").startswith("---\nrelated: [csharp.md]\n---\n")
    assert delete_document(hub, "C#.md").broken == (("x.md:6", "x.md:7") if update_links else ())


def test_a_link_gets_the_ending_that_tells_two_documents_apart(hub, shop):
    """Without it, it would lead to the other one: from the renamed document, to it, and to its new twin."""
    shop.write("knowledge/old.markdown", "# Old\n")
    shop.write("knowledge/twin.md", "# Twin\n")
    shop.write("knowledge/d/x.md", "---\nrelated: ['[[old]]']\n---\n[a](../old#log) [[plan]] ![[Project@plan]]\n")
    shop.write("knowledge/d/plan.md", "# What we do\n\n[self](plan#log)\n")
    hub.sync()
    rename(hub, "d/plan.md", "old.md", update_links=True)

    front = "---\nrelated: ['[[old.markdown]]']\n---\n"
    assert text_of(shop, "d/x.md") == f"{front}[a](../old.markdown#log) [[old]] ![[Project@old]]\n"
    assert rename(hub, "old.md", "twin.markdown", update_links=True).not_updated == ()
    assert text_of(shop, "d/x.md") == f"{front}[a](../old.markdown#log) [[twin.markdown]] ![[Project@twin.markdown]]\n"
    assert text_of(shop, "twin.markdown") == "# What we do\n\n[self](twin.markdown#log)\n"


REWRITTEN = {
    "a path is not left to the name": (
        {"guides/a.md": "[b](b.md) [[b]]\n", "guides/b.md": "# B\n"},
        [("guides/a.md", "a.md", "a.md", "[b](guides/b.md) [[b]]\n")],  # by the name, it would lead nowhere on GitHub
    ),
    "a name like a ref": (
        {"d/a.md": "# What we do\n", "d/x.md": "[a](a.md) [[a]]\n"},
        [("d/a.md", "d/project@n.md", "d/x.md", "[a](./project@n.md) [[d/project@n]]\n")],
    ),
    "a page of a site": (
        {"a.md": "[b](b.html#b) [b](./b.html) [b](b)\n", "b.md": "# B\n"},
        [("b.md", "guide/c.md", "a.md", "[b](guide/c.html#b) [b](./guide/c.html) [b](guide/c)\n")],
    ),
    "from the root of a site": (
        {"content/en/a.md": "[b](/cmd/b/#b) [b](/cmd/b.md)\n", "content/en/cmd/b.md": "# B\n"},
        [
            ("content/en/cmd/b.md", "content/en/c.md", "content/en/a.md", "[b](/c/#b) [b](/c.md)\n"),
            ("content/en/c.md", "content/en/c/_index.md", "content/en/c/_index.md", "# B\n"),
            ("content/en/c/_index.md", "content/en/d/_index.md", "content/en/a.md", "[b](/d/#b) [b](/d/_index.md)\n"),
        ],
    ),
}


@pytest.mark.parametrize(("files", "steps"), REWRITTEN.values(), ids=REWRITTEN)
def test_a_link_is_rewritten_as_it_was_written(environment, files, steps):
    for name, text in files.items():
        environment.write(f"knowledge/{name}", text)
    for old, new, document, text in steps:
        assert rename(synced(environment), old, new, update_links=True).not_updated == ()
        assert text_of(environment, document) == text
