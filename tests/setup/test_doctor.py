"""`kbhub doctor` finds what is wrong, says what to do, and mends no more than what is its own."""

import json
import os
import shutil
from pathlib import Path

import apsw
import pytest
from filelock import FileLock

import kbhub.hub
import kbhub.index.sqlite.schema
import kbhub.setup.doctor
import kbhub.sync.watch
from kbhub.index.sqlite.index import IndexWriter
from kbhub.reading.reports import Finding
from kbhub.setup.doctor import examine, repair
from ollama_server import running_ollama
from trees import snapshot

posix = pytest.mark.skipif(os.name == "nt", reason="needs modes of files")


@pytest.fixture
def shop(environment):
    """A project and a base of the user's, both indexed: all is well."""
    environment.write("knowledge/deploy.md", "# Deploy\n\nPush a tag and wait for the build.\n")
    environment.write("knowledge/guides/branches.md", "# Branches\n\nName a branch after its ticket.\n")
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n\nQuit the editor with a colon and q.\n")
    configure(environment)
    environment.hub().sync()
    return environment


def configure(environment, **more):
    environment.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]}, **more)


def index_of(environment, base="notes") -> Path:
    hub = environment.hub()
    return hub.index(hub.select([base])[0]).path


def found(environment):
    """Everything that is not well."""
    return [finding for finding in examine(environment.hub()).findings if finding.level != "ok"]


def the_finding(environment):
    """The one thing that is not well; it says what to do."""
    (finding,) = found(environment)
    assert finding.remedy
    return finding


def repaired(environment):
    hub = environment.hub()
    return repair(hub, examine(hub))


def theirs(environment):
    """All that is not kbhub's own: documents, config, pointers, repository."""
    top = environment.home.parent
    return snapshot(top, leaving_out=(top / "cache", top / "data"))


def test_a_healthy_setup_gives_only_ok_also_while_another_process_writes(shop):
    findings = examine(shop.hub()).findings
    assert {"ok"} == {finding.level for finding in findings}
    checks = "python sqlite sqlite-vec model config embedder trust reranking cache data permissions index watch client"
    assert checks.split() == list(dict.fromkeys(finding.check for finding in findings))
    assert ["project", "notes"] == [finding.subject for finding in findings if finding.check == "index"]
    os.utime(shop.write("knowledge/new.md", "# New\n"))  # too new for its time to be trusted, but in the index
    shop.hub().sync()
    assert [] == found(shop)

    hub = shop.hub()
    for number in range(20):
        shop.write(f"knowledge/{number}.md", f"# {number}\n\nWords.\n")
        shop.hub().sync()
        assert [one.message for one in examine(hub).findings if one.level == "error"] == []


def test_looking_changes_nothing(shop):
    """A diagnosis of something broken leaves it as it was, journals of open indexes apart."""
    index_of(shop).write_bytes(b"noise" * 1000)
    shop.write("knowledge/late.md", "# Late\n")
    top = shop.home.parent
    before = snapshot(top)
    examine(shop.hub())
    after = {path: state for path, state in snapshot(top).items() if not path.endswith(("-wal", "-shm"))}
    assert {path: state for path, state in before.items() if not path.endswith(("-wal", "-shm"))} == after


def without_journal(path):
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def noise(path):
    path.write_bytes(os.urandom(20_000))


def folder(path):
    path.unlink()
    path.mkdir()


def without_words(path):
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE fts_data SET block = zeroblob(length(block)) WHERE id > 100")
    connection.close()


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [truncated, folder, without_words])
def test_a_broken_index_is_found_and_made_anew(shop, damage):
    path = index_of(shop)
    without_journal(path)
    damage(path)
    before = theirs(shop)
    finding = the_finding(shop)
    assert ("index", "error", "notes", True) == (finding.check, finding.level, finding.subject, finding.fixable)
    assert "--fix" in finding.remedy
    diagnosis = repaired(shop)
    assert (2, ()) == (len(diagnosis.fixed), diagnosis.failed)
    assert [] == found(shop)
    assert before == theirs(shop)


def missing_index(shop):
    without_journal(index_of(shop))
    index_of(shop).unlink()


def unmade_index(shop):
    without_journal(index_of(shop))
    os.truncate(index_of(shop), 1)


def changed_files(shop):
    for name in ("a", "b"):
        shop.write(f"knowledge/{name}.md", f"# {name}\n")
    (shop.project / "knowledge/deploy.md").unlink()


def other_embedder(shop):
    with IndexWriter(index_of(shop)) as writer, writer.transaction():
        writer.set_meta({"embedder": "another"})


def lost_vectors(shop):
    with IndexWriter(index_of(shop)) as writer, writer.transaction():
        writer.forget_vectors()


@pytest.mark.parametrize(
    ("change", "check", "subject", "said"),
    [
        (changed_files, "freshness", "project", "3 files changed"),
        (missing_index, "freshness", "notes", ""),
        (unmade_index, "freshness", "notes", "no index yet"),
        (other_embedder, "vectors", "notes", "by keyword only"),
        (lost_vectors, "vectors", "notes", "Vectors are missing for 1 chunk,"),
    ],
)
def test_an_index_that_is_behind_is_brought_in_step(shop, change, check, subject, said):
    change(shop)
    finding = the_finding(shop)
    assert (check, subject, True, "warning") == (finding.check, finding.subject, finding.fixable, finding.level)
    assert said in finding.message
    assert check != "freshness" or f"`kbhub admin index {subject}`" in finding.remedy
    repaired(shop)
    assert [] == found(shop)


def test_a_lock_that_another_process_holds_is_respected_and_the_command_fails_until_errors_are_mended(shop, kbhub):
    path = index_of(shop)
    noise(path)
    with FileLock(f"{path}.lock"):
        finding = the_finding(shop)
        wrong = Finding(check="index", level="error", subject="notes", message="x", remedy="y", fixable=True)
        broken = repair(shop.hub(), examine(shop.hub()).model_copy(update={"findings": (wrong,)}))
    assert ("lock", "notes", False) == (finding.check, finding.subject, finding.fixable)
    assert "the lock goes with it" in finding.remedy
    assert () == broken.fixed
    assert "another kbhub process" in broken.failed[0]
    assert 20_000 == path.stat().st_size

    repaired(shop)
    assert not any(finding.level == "error" for finding in found(shop))

    noise(index_of(shop))
    assert "1 error. `kbhub doctor --fix` can fix 1." in kbhub("doctor", code=1).out
    fixed = kbhub("doctor", "--fix", code=0)
    assert fixed.err == ""
    assert fixed.out.startswith("fixed  notes: its index was moved aside")
    kbhub("doctor", "--fix")
    assert kbhub("doctor", code=0).out.endswith("\nNo problems found.\n")
    shop.write(shop.home / ".kbhub.json", "{")
    broken = kbhub("doctor", code=1)
    assert broken.err == ""
    assert "malformed JSON" in " ".join(broken.out.split())


def test_files_with_problems_are_named(shop):
    for number in range(8):
        shop.write(f"knowledge/broken{number}.md", "---\ntags: [a\n---\nzebra\n")
    shop.hub().sync()
    findings = found(shop)
    assert {("files", "warning", "project", False)} == {(f.check, f.level, f.subject, f.fixable) for f in findings}
    assert findings[0].message.startswith("broken0.md: ")
    assert findings[-1].message.startswith("3 more files")
    assert all(finding.remedy for finding in findings)


@posix
@pytest.mark.parametrize("name", ["cache", "cache/bases", "index", "lock", "trust"])
def test_what_others_could_read_is_closed(shop, name):
    allowed = shop.project / ".kbhub.json"
    shop.hub().trust.add(allowed, shop.home / "notes")
    allowed.write_text('{"knowledge": "~/notes"}')
    top, index = shop.home.parent, index_of(shop)
    names = {"index": index, "lock": Path(f"{index}.lock"), "trust": top / "data/trust.json"}
    path = names.get(name, top / name)
    path.chmod(0o755 if path.is_dir() else 0o644)
    before = theirs(shop)

    (finding,) = [one for one in found(shop) if one.check == "permissions"]
    assert finding.fixable
    assert str(path) in finding.message
    repaired(shop)
    assert [] == [one for one in found(shop) if one.check == "permissions"]
    assert (0o700 if path.is_dir() else 0o600) == path.stat().st_mode & 0o777
    assert before == theirs(shop)


@posix
def test_a_folder_that_kbhub_shares_with_others_keeps_its_mode(shop):
    """Who sets KBHUB_CACHE_DIR to a folder with other things in it does not lose access to them."""
    cache = shop.home.parent / "cache"
    (cache / "other.txt").write_text("x")
    (cache / "other.txt").chmod(0o644)
    cache.chmod(0o755)
    (cache / "bases").chmod(0o755)
    repaired(shop)
    modes = [path.stat().st_mode & 0o777 for path in (cache, cache / "bases", cache / "other.txt")]
    assert [0o755, 0o700, 0o644] == modes

    theirs = [cache / "bases" / name for name in ("other.db", "other.db-wal", "lost.db-wal")]
    for path in (*theirs, cache / "bases"):
        path.touch()
        path.chmod(0o755)
    outside = shop.write(shop.home / "shared.db", "x")
    outside.chmod(0o755)
    (cache / "bases/link-0123456789ab.db").symlink_to(outside)
    repaired(shop)
    assert [0o755] * 5 == [path.stat().st_mode & 0o777 for path in (*theirs, outside, cache / "bases")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_an_index_of_another_user_is_an_error(shop):
    os.chown(index_of(shop), 65534, -1)
    finding = the_finding(shop)
    assert ("owner", "error") == (finding.check, finding.level)


def private_pointer(shop, **pointer):
    shop.write(shop.home / "private" / "a.md", "x")
    shop.write(".kbhub.json", json.dumps(pointer))


def broken_store(shop):
    store = shop.write(shop.home.parent / "data" / "trust.json", '{"version": 1, "grants": 3}')
    store.chmod(0o600)
    store.parent.chmod(0o700)


FAULTS = {
    "a broken config": (lambda shop: shop.write(shop.home / ".kbhub.json", '{\n  "bases": {x}\n}\n'),
                        ("config", "error", ".kbhub.json: line 2, column")),
    "an unknown field": (lambda shop: configure(shop, serch={"limit": 3}),
                         ("config", "warning", "'serch'", "Did you mean 'search'?")),
    "a missing folder": (lambda shop: shutil.move(shop.home / "notes", shop.home / "away"),
                         ("base", "error", "does not exist", "`bases.notes`")),
    "a malformed pointer": (lambda shop: shop.write(".kbhub.json", '{"knowledge": 3}'),
                            ("pointer", "error", "knowledge: ")),
    # without its target there is no project base; without its cache directory there is
    "an untrusted pointer": (lambda shop: private_pointer(shop, knowledge="~/private"),
                             ("pointer", "error", "`kbhub base trust /", "/.kbhub.json`")),
    "an untrusted cache": (lambda shop: private_pointer(shop, knowledge="./knowledge", cacheDir="~/private"),
                           ("pointer", "warning", "`kbhub base trust /", "/.kbhub.json`")),
    "a malformed store": (broken_store, ("trust", "error", "data/trust.json")),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_file_of_the_users_is_named_and_left_alone(shop, fault):
    change, (check, level, *said) = FAULTS[fault]
    change(shop)
    finding = the_finding(shop)
    top = shop.home.parent
    before = theirs(shop), snapshot(top / "data")
    assert (finding.check, finding.level, finding.fixable) == (check, level, False)
    assert finding.subject in {"base": "notes", "pointer": "project"}.get(check, finding.subject)
    assert all(part in f"{finding.message} {finding.remedy}" for part in said)
    assert repaired(shop).fixed == ()
    assert before == (theirs(shop), snapshot(top / "data"))


LIMITS = {
    "disk": ((kbhub.setup.doctor, "LOW_DISK_BYTES", lambda _: 1 << 62), "Free up space"),
    "sqlite-vec": ((kbhub.index.sqlite.schema, "_vector_extension", lambda _: lambda: None), ""),
    "watch": (
        (kbhub.setup.doctor, "WATCHES", lambda shop: shop.write(shop.home / "max_user_watches", "2\n")),
        "fs.inotify.max_user_watches",
    ),
    "watch ": ((kbhub.sync.watch, "_remote_mounts", lambda shop: lambda: [(str(shop.home), "nfs4")]), "nfs4"),
}


@pytest.mark.parametrize("check", LIMITS)
def test_limits_of_the_machine_are_said(shop, monkeypatch, check):
    (module, name, value), said = LIMITS[check]
    monkeypatch.setattr(module, name, value(shop))
    finding = the_finding(shop)
    assert (finding.check, finding.level) == (check.strip(), "warning")
    assert said in finding.message + finding.remedy


def test_grants_that_lead_nowhere_are_named_with_the_command(shop):
    trust = shop.hub().trust
    notes = shop.home / "notes"
    trust.add(shop.home / "gone" / ".kbhub.json", notes)
    trust.add(shop.write("wiki/.kbhub.json", "{}"), shop.home / "lost")
    trust.add(shop.write("good/.kbhub.json", "{}"), notes)
    findings = found(shop)
    assert {("trust", "warning", False)} == {(f.check, f.level, f.fixable) for f in findings}
    assert ["It is trusted but no longer exists.", f"It is trusted to point to {shop.home / 'lost'}"] == [
        finding.message.partition(", which")[0] for finding in findings
    ]
    assert all(f"kbhub base trust --revoke {finding.subject}" in finding.remedy for finding in findings)


@pytest.mark.parametrize("model", ["empty", "nonsense", "missing"])
def test_a_model_that_does_not_load_is_an_error(shop, model):
    path = shop.home / model
    if model != "missing":
        path.mkdir()
    if model == "nonsense":
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            shop.write(path / name, "{}")
    configure(shop, embedder={"model": str(path)})
    (finding,) = [one for one in found(shop) if one.check == "embedder"]

    assert "error" == finding.level
    assert "keyword only" in finding.message
    assert "`embedder.model`" in finding.remedy
    configure(shop, embedder={"model": "none"})
    assert [] == found(shop)  # which is a choice


def test_a_damaged_packaged_model_is_an_error(shop, tmp_path, monkeypatch):
    """A file that is missing or is another one; its hash is that of the package."""
    copy = tmp_path / "model"
    shutil.copytree(kbhub.setup.doctor.PACKAGED_MODEL, copy)
    monkeypatch.setattr(kbhub.setup.doctor, "PACKAGED_MODEL", copy)
    assert [] == found(shop)
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"\0\1\2\3\4")
    assert ("model", "error") == (the_finding(shop).check, the_finding(shop).level)
    (copy / "tokenizer.json").unlink()
    assert "tokenizer.json is missing" in the_finding(shop).message


def ollama_of(environment, config, **changes):
    environment.configure(**config)
    found = examine(environment.hub(env={**environment.env, **changes})).findings
    return [one for one in found if one.check == "ollama"]


def test_models_of_ollama_are_looked_for_where_the_settings_want_them(environment, monkeypatch):
    monkeypatch.setattr("kbhub.extensions.models.llm.CHECK_SECONDS", 60.0)
    environment.write("knowledge/a.md", "# A\n")
    wanted = {"expansion": {"enabled": True}, "rerank": {"enabled": True}, "answers": {"model": "mistral"}}
    with running_ollama() as server:
        there, missing = ollama_of(environment, wanted, **server.env)
        asked = len(server.requests)
        assert ollama_of(environment, {}, **server.env) == []
        assert asked == len(server.requests)
    (gone, _) = ollama_of(environment, wanted, **server.env)

    assert (there.level, missing.level, gone.level) == ("ok", "warning", "warning")
    assert "`expansion` and `rerank`" in there.message
    assert "Fetch it with `ollama pull mistral`" in missing.message
    assert "does not answer. Start it with `ollama serve`" in gone.message
