"""What is written in a bundle stays one, and no byte beside it changes."""

import hashlib

import pytest

from kbhub import __version__
from kbhub.documents.frontmatter import read_front_matter
from kbhub.editing.audit import audit
from kbhub.editing.documents import write_document
from kbhub.editing.renames import rename
from kbhub.editing.trash import delete_document, restore

INDEX = (
    '---\nokf_version: "0.2"\n---\n# Metric\n\n- [Cost](metrics/cost.md) - what was spent\n\n# Other\n\nMore to come.\n'
)
LOG = "# Log\r\n\r\n## 2026-01-15\r\n* **Creation**: By hand.\r\n"
COST = (
    "---\n# Ours\ntype: Metric\ngenerated:\n  by: human:ana\n  at: 2026-01-15T09:00:00Z\n---\n# Cost\n\nWhat it was.\n"
)


@pytest.fixture
def bundle(environment):
    for path, text in {"index.md": INDEX, "log.md": LOG, "metrics/cost.md": COST}.items():
        environment.write(f"knowledge/{path}", text)
    return environment


def read(environment, path):
    return environment.project.joinpath("knowledge", path).read_bytes().decode()


def front(text):
    return read_front_matter(text.splitlines()).values


def test_a_new_page_says_who_wrote_it_when_and_from_what(hub, bundle):
    """The clock stands at 2027-01-15, 08:00."""
    asked = {"description": "what was earned", "sources": ["metrics/cost.md", "https://x.example", {"resource": "all"}]}
    done = write_document(hub, "metrics/revenue.md", text="# Revenue [net]\n", front_matter=asked, client="An Agent")
    assert done.warnings == ()
    text = read(bundle, "metrics/revenue.md")
    assert front(text) == {
        "type": "Reference",
        "generated": {"by": f"An-Agent/kbhub-{__version__}", "at": "2027-01-15T08:00:00Z"},
        "description": "what was earned",
        "sources": [
            {"resource": "/metrics/cost.md", "hash": hashlib.sha256(COST.encode()).hexdigest()[:12]},
            {"resource": "https://x.example"},
            {"resource": "all"},
        ],
    }
    assert text.endswith("---\n\n# Revenue [net]\n")
    assert read(bundle, "index.md") == INDEX + "\n- [Revenue \\[net\\]](metrics/revenue.md) - what was earned\n"
    entry = "* **Creation**: Added [Revenue \\[net\\]](/metrics/revenue.md).\r\n"
    assert read(bundle, "log.md") == LOG.replace("## 2026-01", f"## 2027-01-15\r\n{entry}\r\n## 2026-01")
    hub.sync()
    assert audit(hub, checks=["okf", "links"]).findings == ()


def test_an_entry_stands_below_the_heading_of_its_type(hub, bundle):
    write_document(hub, "metrics/revenue.md", text="# Revenue\n", front_matter={"type": "Metric"})
    assert read(bundle, "index.md") == INDEX.replace("spent\n", "spent\n- [Revenue](metrics/revenue.md)\n")


def test_reserved_files_and_other_bases_get_nothing(hub, bundle):
    write_document(hub, "metrics/index.md", text="# Metrics\n")
    assert "generated" not in read(bundle, "metrics/index.md")
    bundle.write("knowledge/index.md", "# Only a page\n")
    write_document(hub, "plain.md", text="# Plain\n")
    assert front(read(bundle, "plain.md")).keys() == {"tags", "created"}
    assert read(bundle, "log.md") == LOG


def test_a_changed_page_gets_a_new_time_and_keeps_the_rest(hub, bundle):
    for _ in range(2):
        write_document(hub, "metrics/cost.md", text="More.", mode="append")
    head, body = COST.split("generated:\n  by: human:ana\n  at: 2026-01-15T09:00:00Z\n")
    generated = f"generated: {{by: kbhub/{__version__}, at: '2027-01-15T08:00:00Z'}}\n"
    assert read(bundle, "metrics/cost.md") == f"{head}{generated}{body}\nMore.\n\nMore.\n"
    assert read(bundle, "log.md").count("* **Update**: Changed [Cost](/metrics/cost.md).") == 1
    assert read(bundle, "index.md") == INDEX


def test_what_changes_no_text_or_says_who_wrote_it_is_taken_as_it_is(hub, bundle):
    write_document(hub, "metrics/cost.md", text="# Cost\n\nWhat it was.\n", mode="update")
    assert (read(bundle, "metrics/cost.md"), read(bundle, "log.md")) == (COST, LOG)
    write_document(hub, "metrics/cost.md", front_matter={"status": "deprecated"}, mode="update")
    assert read(bundle, "metrics/cost.md") == COST.replace("Z\n---", "Z\nstatus: deprecated\n---")
    own = "---\ntype: Metric\ngenerated: {by: other/1}\n---\n# Own\n"
    write_document(hub, "own.md", text=own)
    assert read(bundle, "own.md") == own


def test_what_is_deleted_restored_and_renamed_is_recorded_and_no_link_to_it_breaks(hub, bundle):
    write_document(hub, "metrics/cost.md", text="It rose.\n", mode="append")
    delete_document(hub, "metrics/cost.md")
    log = LOG.replace("\r\n\r\n", "\r\n\r\n## 2027-01-15\r\n{}* **Update**: Changed Cost.\r\n\r\n")
    gone = "* **Deletion**: Removed `metrics/cost.md`.\r\n"
    assert read(bundle, "log.md") == log.format(gone)
    assert read(bundle, "index.md") == INDEX.replace("- [Cost](metrics/cost.md) - what was spent\n", "")
    restore(hub, "metrics/cost.md")
    assert read(bundle, "log.md") == log.format(f"* **Creation**: Added [Cost](/metrics/cost.md).\r\n{gone}")
    assert "* [Cost](metrics/cost.md)\n" in read(bundle, "index.md")
    rename(hub, "metrics/cost.md", "spent.md", update_links=True)
    assert "* **Update**: Changed [Cost](/spent.md).\r\n* **Creation**: Added [Cost](/spent.md)." in read(
        bundle, "log.md"
    )
    assert "* [Cost](spent.md)\n" in read(bundle, "index.md")
    assert audit(hub, checks=["links", "okf"]).findings == ()


def test_an_index_that_leads_out_is_neither_read_nor_written(bundle, hub, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text("# Theirs\n\n## 2026-01-01\n")
    for name in ("log.md", "metrics/index.md"):
        bundle.project.joinpath("knowledge", name).unlink(missing_ok=True)
        bundle.project.joinpath("knowledge", name).symlink_to(outside)
    write_document(hub, "metrics/revenue.md", text="# Sum\n", front_matter={"sources": ["../../outside.md", "/../x"]})
    assert outside.read_text() == "# Theirs\n\n## 2026-01-01\n"
    sources = front(read(bundle, "metrics/revenue.md"))["sources"]
    assert sources == [{"resource": "../../outside.md"}, {"resource": "/../x"}]
