"""Commits without a process of git, which would take five milliseconds for each of its commands."""

import hashlib
import os
import struct
import zlib
from pathlib import Path

from conftest import make_repository


def write_object(folder: Path, kind: str, data: bytes) -> str:
    """Write an object into a folder of git's own; give its name."""
    data = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(data).hexdigest()
    file = folder / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(zlib.compress(data))
    return name


def add_remote(repository: Path, address: object, name: str = "origin") -> None:
    with (repository / ".git/config").open("a") as config:
        config.write(f'[remote "{name}"]\n\turl = {address}\n\tfetch = +refs/heads/*:refs/remotes/{name}/*\n')


def add_worktree(repository: Path, folder: Path) -> None:
    """Make a worktree of a repository, as `git worktree add` does, without files."""
    admin = repository / ".git/worktrees" / folder.name
    for made in (admin, folder):
        made.mkdir(parents=True)
    for name, text in {"gitdir": folder / ".git", "commondir": "../..", "HEAD": "ref: refs/heads/main"}.items():
        (admin / name).write_text(f"{text}\n")
    (folder / ".git").write_text(f"gitdir: {admin}\n")


def commit(repository: Path, at: int, *only: str, branch: str = "main", also: tuple[str, ...] = ()) -> str:
    """Commit all files, or those in some folders at the top, as they are; give the commit's name.

    Its parents are the last commit of the branch, which starts at `main`, and others. A repository is made if need be.
    """
    if not (repository / ".git").exists():
        make_repository(repository)
    files: list[tuple[bytes, int, str]] = []
    git = repository / ".git"
    root = tree(repository, repository, only, files)
    head = git / "refs/heads" / branch
    last = head if head.exists() else git / "refs/heads/main"
    parents = [last.read_text().strip()] if last.exists() else []
    lines = [f"tree {root}", *(f"parent {one}" for one in (*parents, *also))]
    lines += [f"{who} A <a@example.org> {at} +0000" for who in ("author", "committer")]
    lines += ["gpgsig -----BEGIN PGP SIGNATURE-----", " x", " -----END PGP SIGNATURE-----"]  # a program may check it
    made = write_object(git, "commit", ("\n".join(lines) + "\n\nchange\n").encode())
    head.write_text(made + "\n")
    index = b"DIRC" + struct.pack(">2I", 2, len(files))
    for path, mode, name in sorted(files):
        entry = struct.pack(">10I20sH", *[0] * 6, mode, 0, 0, 0, bytes.fromhex(name), min(len(path), 0xFFF)) + path
        index += entry + b"\0" * (8 - len(entry) % 8)
    (git / "index").write_bytes(index + hashlib.sha1(index).digest())
    return made


def tree(repository: Path, folder: Path, only: tuple[str, ...] = (), files: list | None = None) -> str:
    """Write the tree of a folder, and note its files; give its name."""
    entries = []
    for path in folder.iterdir():
        name = os.fsencode(path.name)
        if path.name == ".git" or (only and path.name not in only):
            continue
        if path.is_dir() and not path.is_symlink():
            entries.append((name + b"/", b"40000 " + name, tree(repository, path, (), files)))
            continue
        data, mode = path.read_bytes(), 0o100755 if os.access(path, os.X_OK) else 0o100644
        blob = write_object(repository / ".git", "blob", data)
        entries.append((name, b"%o " % mode + name, blob))
        if files is not None:
            files.append((os.fsencode(path.relative_to(repository)), mode, blob))
    data = b"".join(entry + b"\0" + bytes.fromhex(blob) for _, entry, blob in sorted(entries))
    return write_object(repository / ".git", "tree", data)
