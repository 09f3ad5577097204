"""Checks of documents by themselves: front matter, encoding, age, tags, refs, duplicates, and links in or out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kbhub.documents.markdown import inline_tags_of
from kbhub.documents.secrets import find_secrets
from kbhub.documents.shown_text import GENERATING
from kbhub.documents.source import parse_text
from kbhub.editing import findings
from kbhub.editing.checks import by_form
from kbhub.editing.findings import AuditRun, Found, Material, check
from kbhub.index.catalogue import bodies, front_matter_of, texts, titled
from kbhub.index.references import ENDED, MISLEADING, STALE_DAYS, SUPERSEDED_KEYS, UNTIL_KEYS, age_days, declared
from kbhub.memory.catalog import all_known, ref, subjects_changed
from kbhub.reading.code_references import RefState, Sources
from kbhub.reading.graph import entries
from kbhub.reading.links import folded, site_settings, stem
from kbhub.values import age_text, counted
from kbhub.workspace.formats import is_converted, is_markdown
from kbhub.workspace.project import PROJECT_ID

_FRONT_MATTER = re.compile(r"Front matter .*", re.DOTALL)
_REPLACED = "\ufffd"

_WHAT = {"changed": "changed since", "vanished": "is gone"}

ENTRANCES = frozenset(
    ("_index", "changelog", "code_of_conduct", "contributing", "home", "index", "license", "overview", "readme")
)
"""Names, case-folded and without suffix, of documents that people find by name."""

MOST_REFS = 20_000
"""Limit of entries looked up in one audit; each may open a file."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_REF_FAULTS: dict[RefState, tuple[findings.Severity, str]] = {
    "outside": ("error", "Name a file of the project by its path from the git root."),
    "missing": ("error", "Update the path, or remove the entry if the document is no longer about the file."),
    "undefined": ("error", "Update the symbol, and check whether the document still holds."),
    "named": ("warning", "Update the file, and check whether the document still holds."),
    "unchecked": ("info", "Check whether it exists."),
}
"""State of an entry of `refs` → severity and remedy."""

_REPLACE = "Save it again in the program that wrote it, or exclude it with `.kbhubignore` or `exclude`."

_REVOKE = (
    "Revoke the credential, because whoever could read the file may have it. Then remove it, from git's history too."
)


@check("front-matter", severity="error")
def unreadable_front_matter(_: AuditRun, material: Material) -> Iterator[Found]:
    """Find documents whose front matter cannot be read."""
    for path, problem in material.damage.items():
        if front := _FRONT_MATTER.search(problem):
            message, line = findings.front_matter_fault(front[0])
            remedy = "Fix it. Until then, its fields are ignored and it is indexed as text."
            yield Found(material, path, message, remedy, line)


@check("encoding", severity="error")
def damaged_text(_: AuditRun, material: Material) -> Iterator[Found]:
    """Find documents with bytes that are no text."""
    problems = {path: _FRONT_MATTER.sub("", problem, 1).strip() for path, problem in material.damage.items()}
    damaged = {path: problem for path, problem in problems.items() if problem}
    with material.hub.index(material.base).snapshot() as index:
        found = dict(texts(index, list(damaged)))
    for path, problem in damaged.items():
        remedy = _REPLACE if is_converted(material.documents[path].kind) else "Save the file as UTF-8."
        before, mark, _rest = found.get(path, "").partition(_REPLACED)
        yield Found(material, path, problem, remedy, before.count("\n") + 1 if mark else None)


@check("files", severity="warning")
def unindexed_files(_: AuditRun, material: Material) -> Iterator[Found]:
    """Find files that should be indexed, but are not."""
    for path, message in material.unindexed:
        reason = f"It is not indexed: {message.removeprefix(f'{path}: ')}"
        yield Found(material, path, reason, "Fix it, or exclude it with `.kbhubignore` or `exclude`.")


@check("titles", severity="warning")
def missing_titles(_: AuditRun, material: Material) -> Iterator[Found]:
    """Find documents that have no title, so that their file name is used, or no text."""
    with material.hub.index(material.base).snapshot() as index:
        rows, named = material.written(), titled(index)
        untitled = [path for path in rows if path not in named and rows[path].title == parse_text(path, b"").title]
        empty = {path for path, text in bodies(index, untitled) if not text.strip()}
        headed = {
            path
            for path, text in texts(index, untitled)
            if GENERATING.search(text)
            or any(heading.text for heading in parse_text(path, text.encode("utf-8", "replace")).headings)
        }
    for path in untitled:
        if path in empty:
            yield Found(material, path, "The document is empty.", "Write it, or delete it.")
        elif path not in headed:
            remedy = "Start it with a heading `# …`." if is_markdown(path) else "Start it with a heading."
            yield Found(material, path, "No title: neither a heading nor `title` in front matter.", remedy)


@check("secrets", severity="error")
def leaked_secrets(run: AuditRun, material: Material) -> Iterator[Found]:
    """Find credentials; none is shown but for its first characters."""
    with material.hub.index(material.base).snapshot() as index:
        for path, text in texts(index, tuple(material.written())):
            for secret in find_secrets(text):
                message = f"It looks like it contains a credential: {secret.kind}, {secret.shown(text)}"
                yield Found(material, path, message, _REVOKE, secret.line(text))
            run.reach("secrets", run.done + 1)  # no check takes longer


@check("stale", severity="info")
def stale_documents(_: AuditRun, material: Material) -> Iterator[Found]:
    """Find stale documents, each for its most severe reason."""
    now = material.hub.options.clock()
    written = material.written()
    with material.hub.index(material.base).snapshot() as index:
        said = declared(index, tuple(written.values()), now)
        reasons, decided = said.outdated, said.decided
        stale = [path for path, row in written.items() if row.id in reasons]
        fronts = {path: findings.front_lines(text) for path, text in texts(index, stale)}
    for path, row in written.items():
        why, age = reasons.get(row.id), age_days(row, now)
        if why is not None and why.casefold().startswith(ENDED):
            remedy = "Link to the replacement, or delete the document if nobody needs its history."
            line = findings.key_line(fronts.get(path, []), *SUPERSEDED_KEYS, "status")
            yield Found(material, path, f"It says: {why}.", remedy, line)
        elif why is not None and MISLEADING not in why:  # see `memories`
            remedy = "Check whether it still holds, then fix it and update the date."
            line = findings.key_line(fronts.get(path, []), *UNTIL_KEYS)
            yield Found(material, path, f"Its date has passed: {why}.", remedy, line, severity="warning")
        elif age > STALE_DAYS and row.id not in decided:
            remedy = "Check whether it still holds, and set `updated` in front matter to the date of the check."
            yield Found(material, path, f"Not changed for {age_text(age, '')}.", remedy)


@check("memories", severity="warning")
def outdated_memories(run: AuditRun) -> Iterator[Found]:
    """Find memories that misled, or whose document or code changed or vanished since."""
    by_ref = {material.ref(path): (material, path) for material in run.audited for path in material.documents}
    for memory in all_known(run.hub):
        if memory.facts.misleading and (name := ref(run.hub, memory)) in by_ref:
            what = f"The memory {memory.title!r} is said to be misleading."
            remedy = f"Confirm it with `remember` and the id {memory.facts.id}, change it, or `forget` it."
            yield Found(*by_ref[name], what, remedy)
    for change in subjects_changed(run.hub):
        if change.ref in by_ref:
            what = f"What the memory {change.title!r} is about, {change.subject!r}, {_WHAT[change.state]}."
            remedy = f"Check whether it still holds: confirm it with `remember` and the id {change.id}, or `forget` it."
            yield Found(*by_ref[change.ref], what, remedy)


@check("orphans", severity="info")
def orphans(run: AuditRun, material: Material) -> Iterator[Found]:
    """Find documents without links (including `related`) in or out, and without tags; not in a documentation site."""
    base_id = material.base.id
    if site_settings(material.base):  # its navigation shows them all
        return
    linked = {link.path for link in material.links if link.by != "itself"}
    linked |= {
        link.goal[1]
        for other in run.bases.values()
        for link in other.links
        if link.goal and link.goal[0] == base_id and (other.base.id, link.path) != link.goal
    }
    for path, row in material.written().items():
        name = folded(stem(path)).rpartition("/")[2]
        if path not in linked and not row.tags and name not in ENTRANCES:
            remedy = "Link it from where it belongs, or add tags."
            yield Found(material, path, "No links to or from this document, and no tags.", remedy)


@check("tags", severity="warning")
def tags_spelt_differently(run: AuditRun) -> Iterator[Found]:
    """Find tags that are mostly spelt differently in all bases."""
    counts: Counter[str] = Counter(
        tag for material in run.bases.values() for row in material.documents.values() for tag in set(row.tags)
    )
    usual: dict[str, str] = {}
    for same in by_form(counts).values():
        best = min(same, key=lambda tag: (-counts[tag], tag != tag.lower(), len(tag), tag))
        usual.update({tag: best for tag in same if tag != best})
    for material in run.audited:
        rows = {path: row for path, row in material.written().items() if any(tag in usual for tag in row.tags)}
        if not rows:
            continue
        with material.hub.index(material.base).snapshot() as index:
            tagged = ((path, text) for path, _, text in front_matter_of(index, "tag") if path in rows)
            lines = {path: findings.front_lines(text) for path, text in tagged}
            inline: dict[tuple[str, str], int] = {}
            for path, text in texts(index, list(rows)) if material.base.inline_tags else ():
                for one in inline_tags_of(text):
                    inline.setdefault((path, one.tag), one.line)
        for path, tag in ((path, tag) for path, row in rows.items() for tag in row.tags if tag in usual):
            message, remedy = f"The tag {tag!r} is mostly written {usual[tag]!r}.", f"Write {usual[tag]!r}."
            line = findings.line_of(lines.get(path, []), tag) or inline.get((path, tag))
            fix = findings.Fix(what="tag", before=tag, after=usual[tag])
            yield Found(material, path, message, remedy, line, fix=fix)


@check("refs", severity="error")
def broken_refs(run: AuditRun) -> Iterator[Found]:
    """Find entries of `refs` whose file or symbol does not exist, and note what was not looked up."""
    left = MOST_REFS
    for material in run.audited:
        root, base = run.hub.discovery().workspace.git_root, material.base
        with run.hub.index(base).snapshot() as index:
            named = [
                (entry, path, findings.line_of(lines, entry))
                for path, front, text in front_matter_of(index, "refs")
                for lines in (findings.front_lines(text),)
                for key, value in front.items()
                if key.strip().casefold() == "refs"
                for entry in dict.fromkeys(entries(value))
                if not _URL.match(entry)
            ]
        if not (root and (base.id == PROJECT_ID or base.path.is_relative_to(root))):
            if named:
                what = counted(len(named), "entry", "entries")
                run.notes.append(f"{base.id}: {what} of `refs` not checked, because the base belongs to no project.")
            continue
        # Sorted by file, so that each file is read once.
        named.sort(key=lambda one: one[:2])
        if (more := len(named) - left) > 0:
            run.notes.append(f"{base.id}: {more} entries of `refs` not checked, because there are too many.")
        sources = Sources(root)
        for entry, path, line in named[:left]:
            if fault := sources.fault(entry):
                message = f"`refs` names {entry!r}, but {fault.reason}."
                severity, remedy = _REF_FAULTS[fault.state]
                remedy = f"Did you mean {fault.near!r}? {remedy}" if fault.near else remedy
                yield Found(material, path, message, remedy, line, severity=severity)
        left = max(0, left - len(named))


@check("duplicates", severity="warning")
def duplicates(run: AuditRun) -> Iterator[Found]:
    """Find documents with the same text, or almost."""
    # numpy takes 0.1 s to load, and no other check needs it.
    from kbhub.editing.duplicates import resembling  # noqa: PLC0415

    return resembling(run)
