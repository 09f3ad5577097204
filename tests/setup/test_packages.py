"""`kbhub base add --docs`: documentation of libraries, of the version that the project pins, from what is on disk."""

import gzip
import io
import json
import os
import sys
import tarfile
import zipfile

import pytest

from kbhub.errors import UsageError
from kbhub.setup.bases import remove_base
from kbhub.setup.found import add_package
from kbhub.types import Query

posix = pytest.mark.skipif(os.name == "nt", reason="needs links")

QUESTIONS = {
    "anyio": {
        "run a blocking function in a worker thread": "to_thread",
        "move on after a timeout without an error": "_core._tasks",
        "send objects between tasks through a buffer": "streams.memory",
        "wrap a stream in TLS": "streams.tls",
    },
    "filelock": {
        "what to do when the lock cannot be acquired in time": "filelock._",
        "lock that several readers may hold": "filelock._soft_rw._sync",
        "permissions of the lock file": "filelock._api",
        "lock that only uses whether the file exists": "filelock._soft",
    },
}


def distribution(environment, name, version, *modules, description="About it.\n"):
    """Install a package into the project's environment; a module is (path, text)."""
    site = environment.project / ".venv/lib/python3.12/site-packages"
    metadata = f"{name.replace('-', '_')}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nDescription-Content-Type: text/markdown\n\n"
    environment.write(site / metadata / "METADATA", head + description)
    environment.write(site / metadata / "RECORD", "".join(f"{path},,\n" for path, _ in modules))
    for path, text in modules:
        environment.write(site / path, text)
    return site


def lock(environment, *kiln):
    packages = "".join(f'[[package]]\nname = "kiln"\nversion = "{one}"\n\n' for one in kiln)
    environment.write("uv.lock", f"version = 1\n\n{packages}")


def refs(environment, words, **changes):
    hub = environment.hub(**changes)
    hub.sync()
    return [hit.ref for hit in hub.search(Query(text=words)).hits]


@posix
def test_the_docstrings_of_installed_packages_answer_questions(environment):
    (environment.project / ".venv").symlink_to(sys.prefix)
    for package in QUESTIONS:
        assert add_package(environment.hub(), package).files > 5
    hub = environment.hub()
    hub.sync()
    missed = []
    for package, questions in QUESTIONS.items():
        for question, page in questions.items():
            found = [hit.path for hit in hub.search(Query(text=question)).hits[:3]]
            if not any(path.startswith(f"{package}-") and page in path for path in found):
                missed.append((question, found))
    assert missed == []


def test_the_copy_follows_the_lock_file_and_of_several_pinned_versions_the_installed_one_is_taken(environment):
    lock(environment, "1.0")
    distribution(environment, "kiln", "1.0", ("kiln/__init__.py", '"""Fires clay slowly."""'))
    package = add_package(environment.hub(), "kiln")

    assert (package.id, package.version, package.lock, package.added) == ("kiln-docs", "1.0", "uv.lock", True)
    assert refs(environment, "clay slowly")[0].startswith("kiln-docs@kiln-1.0/api/kiln.md")
    assert refs(environment, "clay slowly", cwd=environment.home) == []
    assert not add_package(environment.hub(), "kiln").added

    lock(environment, "1.1.0")
    assert refs(environment, "clay")[0].startswith("kiln-docs@kiln-1.0/")  # not installed yet
    distribution(environment, "kiln", "1.1.0", ("kiln/__init__.py", '"""Fires clay with two\ncones."""'))
    assert refs(environment, "clay cones")[0].startswith("kiln-docs@kiln-1.1.0/api/kiln.md")
    assert not any("kiln-1.0/" in ref for ref in refs(environment, "clay"))

    assert f"copy in {package.path} is deleted" in remove_base(environment.hub(), "kiln-docs").notes[0]
    assert not package.path.exists()
    assert refs(environment, "clay cones") == []

    lock(environment, "1.9", "2.0")
    distribution(environment, "kiln", "2.0", ("kiln/__init__.py", '"""Fires clay."""'))
    package = add_package(environment.hub(), "kiln")
    assert (package.version, package.lock) == ("2.0", "uv.lock")


def test_signatures_shipped_text_and_the_description_are_documentation_and_nothing_is_run(environment):
    source = (
        'raise SystemExit("imported")\n\nclass Oven(Base):\n    """Holds heat."""\n\n'
        '    async def bake(self, loaf: str, *, minutes: int = 40) -> Bread:\n        """Bakes a loaf."""\n\n'
        '    def _hidden(self):\n        """Secret recipe."""\n'
    )
    distribution(
        environment, "my-oven", "2.0",
        ("my_oven/_core/_oven.py", source), ("my_oven/guide.md", "# Guide\n\nPreheat.\n"), ("my_oven/broken.py", "def"),
        ("my_oven/tests/test_x.py", '"""Tests."""'),
        description="# My oven\n\nFor sourdough.\n",
    )  # fmt: skip
    folder = add_package(environment.hub(), "My.Oven").path / "My.Oven-2.0"
    text = (folder / "api/my_oven._core._oven.md").read_text()

    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.is_file()} == {
        "README.md", "my_oven/guide.md", "api/my_oven._core._oven.md",
    }  # fmt: skip
    assert text.startswith("# my_oven: oven, My.Oven 2.0\n\n## Oven\n\n```python\nclass Oven(Base)\n```\n\nHolds heat.")
    assert "async def bake(self, loaf: str, *, minutes: int=40) -> Bread" in text
    assert "Secret" not in text


@pytest.mark.parametrize(
    ("asked", "folder", "lock_file", "text"),
    [
        ("@scope/kit", "{project}/node_modules/@scope/kit", "package-lock.json",
         '{"packages": {"node_modules/@scope/kit": {"version": "4.5.6"}}}'),
        ("example.com/Go/kit", "{home}/go/pkg/mod/example.com/!go/kit@v4.5.6", "go.mod",
         "module x\n\nrequire (\n\texample.com/Go/kit v4.5.6\n)\n"),
        ("kit-rs", "{home}/.cargo/registry/src/index-1/kit-rs-4.5.6", "Cargo.lock",
         '[[package]]\nname = "kit-rs"\nversion = "4.5.6"\n'),
    ],
)  # fmt: skip
def test_files_of_packages_of_other_languages_are_taken(environment, asked, folder, lock_file, text):
    folder = folder.format(project=environment.project, home=environment.home)
    environment.write(f"{folder}/package.json", '{"version": "4.5.6"}')
    environment.write(f"{folder}/README.md", "# Kit\n\nSolders wires.\n")
    environment.write(f"{folder}/docs/tin.md", "Tin melts.\n")
    environment.write(f"{folder}/node_modules/inner/README.md", "Inner wires.\n")
    environment.write(f"{folder}/LICENSE", "wires\n")
    environment.write(lock_file, text)
    package = add_package(environment.hub(), asked)
    assert (package.version, package.lock, package.files) == ("4.5.6", lock_file, 2)
    assert refs(environment, "solder wires")[0].endswith("-4.5.6/README.md")


def test_what_cannot_be_taken_is_one_sentence(environment):
    distribution(environment, "kiln", "2.0", ("kiln/__init__.py", '"""Fires."""'))
    distribution(environment, "bare", "1.0", description="")
    environment.write("node_modules/kiln/package.json", '{"version": "7.0"}')
    environment.write("requirements.txt", "bare==1.0\nother==3\n")

    def refusal(asked):
        with pytest.raises(UsageError) as refused:
            add_package(environment.hub(), asked)
        return str(refused.value)

    assert refusal("kiln") == "kiln is in node and python. Write node:kiln, for instance."
    assert "kiln 9 was asked for, and the machine has 2.0" in refusal("python:kiln==9")
    assert "No nosuch on this machine" in refusal("nosuch")
    assert "has no documentation" in refusal("bare")
    for name in ("a//b", "", "x y", "-r"):
        assert "is no package" in refusal(name)
    assert "There is no file" in refusal("../bare")
    assert "`kbhub base add` adds a folder" in refusal("./node_modules")
    environment.write("torn.zip", b"PK\x05\x06" + b"\0" * 18 + b"x")
    assert "has no documentation" in refusal("./torn.zip")
    environment.write("torn.tgz", gzip.compress(b"kiln/README.md" + b"\0" * 2000)[:-9])
    assert "torn.tgz cannot be read: it is no archive and no text." in refusal("./torn.tgz")
    lock(environment, "3.0")
    assert "uv.lock pins kiln 3.0, and the machine has 2.0" in refusal("python:kiln")
    assert add_package(environment.hub(), "kiln==2.0").lock is None


@posix
def test_a_clone_cannot_have_other_folders_copied(environment):
    diary = environment.write(environment.home / "diary/README.md", "The diary of wombats.\n").parent
    environment.write(diary / "package.json", '{"version": "1.0"}')
    environment.write("node_modules/.keep", "")
    (environment.project / "node_modules/leak").symlink_to(diary)
    site = distribution(environment, "kiln", "1.0", ("kiln/a.md", "Fires.\n"))
    (site / "kiln/link").symlink_to(diary)
    (site / "kiln/b.md").symlink_to(diary / "README.md")
    record = site / "kiln-1.0.dist-info/RECORD"
    up = os.path.relpath(diary / "README.md", site)
    again = f"../../../../.venv/{site.relative_to(environment.project / '.venv')}/kiln/a.md"
    paths = (
        "kiln/a.md", "kiln/link/README.md", "kiln/b.md", up, diary / "README.md", again, site / "kiln/a.md", "a\0b",
    )  # fmt: skip
    record.write_text("".join(f"{path},,\n" for path in paths))
    before = sorted(environment.home.parent.rglob("*.md"))
    package = add_package(environment.hub(), "kiln")

    made = sorted(set(environment.home.parent.rglob("*.md")) - {*before})
    assert [path.relative_to(package.path).as_posix() for path in made] == ["kiln-1.0/README.md", "kiln-1.0/kiln/a.md"]
    with pytest.raises(UsageError, match="No leak on this machine"):
        add_package(environment.hub(), "leak")
    assert refs(environment, "diary of wombats") == []
    assert json.loads((environment.home / ".kbhub.json").read_text())["bases"].keys() == {"kiln-docs"}


def packed(kind, folder, files):
    """Write an archive of files; for `None` as text, the entry is a link."""
    path = folder / f"kiln-3.1.{kind}"
    folder.mkdir(exist_ok=True)
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text or "")
        return path
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text or "")
            if text is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/hosts"
            archive.addfile(entry, io.BytesIO((text or "").encode()))
    return path


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_the_user_names_is_documentation(environment, kind):
    files = {
        "kiln/docs/cones.md": "# Cones\n\nCones melt at ten.\n", "kiln/README": "Fires clay.\n", "kiln/a.py": "x = 1\n",
        "kiln/tests/t.md": "Cones in tests.\n", "../../up.md": "Cones above.\n", "/top.md": "Cones at the top.\n",
        "kiln/link.md": None, "kiln/docs/cones.md/below.md": "Cones below.\n", f"kiln/{'n' * 300}.md": "Cones, long.\n",
    }  # fmt: skip
    archive = packed(kind, environment.home / "files", files)
    package = add_package(environment.hub(), f"~/files/{archive.name}")

    assert (package.id, package.version, package.files) == ("kiln-docs", "3.1", 2)
    made = [path.relative_to(package.path).as_posix() for path in sorted(package.path.rglob("*.md"))]
    assert made == ["kiln-3.1/kiln/README.md", "kiln-3.1/kiln/docs/cones.md"]
    assert refs(environment, "cones melt") == ["kiln-docs@kiln-3.1/kiln/docs/cones.md"]

    packed(kind, archive.parent, {"kiln/docs/new.md": "# Glaze\n\nGlaze shines.\n"})
    os.utime(archive, (0, 0))
    assert refs(environment, "glaze shines") == ["kiln-docs@kiln-3.1/kiln/docs/new.md"]
    archive.unlink()
    assert refs(environment, "glaze shines") == ["kiln-docs@kiln-3.1/kiln/docs/new.md"]


def test_a_file_that_the_user_names_is_documentation(environment, kbhub):
    environment.write("llms-full.txt", "# Stove\n\nIt simmers.\n")
    added = kbhub("base", "add", "--docs", "./llms-full.txt", code=0)
    assert added.out.startswith("Added llms-full-docs: llms-full, 1 document from ")
    assert refs(environment, "it simmers") == ["llms-full-docs@llms-full/llms-full.md"]
