"""A bundle is copied byte for byte, another base becomes one, and nothing leaks from either."""

from __future__ import annotations

import json

import pytest

PAGE = "---\r\ntype: Metric\r\nexecutor: { resource: references/run.py }\r\n---\r\n# Revenue\r\n\r\n![p](img/p.png)\r\n"
BUNDLE = {
    "index.md": b'---\nokf_version: "0.2"\n---\n# Metrics\n* [Revenue](revenue.md)\n',
    "log.md": b"# Log\n\n## 2026-01-15\n* **Creation**: By hand.", "revenue.md": PAGE.encode(),
    "latin.md": b"---\ntype: Note\n---\n# caf\xe9\n", "references/run.py": b"print(1)\n", "img/p.png": b"\x89PNG\x00",
}  # fmt: skip
SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6"


@pytest.fixture
def exported(environment, kbhub, tmp_path):
    """Exports the project's knowledge; gives what came, the exit code and the result."""

    def run(*options):
        outcome = kbhub("base", "export", "project", str(tmp_path / "out"), "--json", *options)
        files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
        came = {file.relative_to(tmp_path / "out").as_posix(): file.read_bytes() for file in files}
        return came, outcome.code, json.loads(outcome.out)

    return run


def write(environment, files):
    for path, data in files.items():
        environment.write(f"knowledge/{path}", data)


@pytest.mark.parametrize("options", [(), ("--okf",)])
def test_a_bundle_round_trips_byte_for_byte(environment, exported, options):
    """With the files that its pages name, and without those that nobody names."""
    write(environment, BUNDLE | {"unnamed.py": b"x = 1\n"})
    came, code, result = exported(*options)
    assert came == BUNDLE
    assert (code, result["changed"], result["faults"]) == (0, [], 0)


def test_another_base_becomes_a_bundle(environment, exported):
    write(environment, {"a.md": "# A\r\n\r\ntext\r\n", "sub/b.md": "---\ntags: [x] # why\n---\n# B [b]\n"})
    came, code, result = exported("--okf")
    assert came["a.md"] == b"---\r\ntype: Reference\r\n---\r\n\r\n# A\r\n\r\ntext\r\n"
    assert came["sub/b.md"] == b"---\ntags: [x] # why\ntype: Reference\n---\n# B [b]\n"
    assert came["index.md"] == b'---\nokf_version: "0.2"\n---\n# Pages\n\n* [A](a.md)\n* [sub](sub/)\n'
    assert (code, result["changed"], result["faults"]) == (0, ["a.md", "sub/b.md", "index.md"], 0)


def test_a_hostile_bundle_leaks_nothing(environment, exported):
    """Names of hidden, ignored and outer files, links out, credentials, and front matter that never ends."""
    outer = environment.write("secret.txt", "outside")
    write(
        environment,
        {".env": "KEY=1", "ignored.bin": "x", ".gitignore": "ignored.bin\n", "token.md": f"# T\n\n{SECRET}\n"},
    )
    environment.project.joinpath("knowledge/link.md").symlink_to(outer)
    environment.project.joinpath("knowledge/pic.png").symlink_to(outer)
    environment.project.joinpath("knowledge/own.png").symlink_to(".env")
    named = "[a](../secret.txt) [b](/../secret.txt) [c](.env) [d](ignored.bin) ![e](pic.png) ![f](own.png)"
    write(
        environment,
        {"page.md": f"---\ntype: X\ncomputation: {outer}\nexecutor: [{{resource: .env}}]\n---\n# P\n\n{named}\n"},
    )
    write(environment, {"endless.md": f"---\ntype: X\nmore: {'x' * 70_000}\n"})
    came, code, result = exported("--okf")
    assert came.keys() == {"page.md", "endless.md", "index.md"}
    assert (code, result["refused"], result["faults"]) == (1, ["token.md"], 1)


def test_no_file_is_overwritten_and_no_base_is_copied_into_itself(environment, kbhub, tmp_path):
    write(environment, BUNDLE)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.md").write_text("mine")
    for folder in (tmp_path / "full", environment.project / "knowledge" / "out"):
        outcome = kbhub("base", "export", "project", str(folder))
        assert (outcome.code, outcome.out) == (2, "")
    assert not (environment.project / "knowledge" / "out").exists()


def test_init_makes_a_bundle(kbhub, environment, tmp_path):
    outcome = kbhub("init", "--okf", "--no-agents-md")
    assert outcome.code == 0
    assert kbhub("audit", "--okf", "--fail-on", "info").code == 0
    assert environment.project.joinpath("knowledge/log.md").read_text().startswith("# Log\n\n## 20")
    before = {file: file.read_bytes() for file in (environment.project / "knowledge").iterdir()}
    assert "index.md exists" in kbhub("init", "--okf", "--no-agents-md").err
    assert {file: file.read_bytes() for file in before} == before
