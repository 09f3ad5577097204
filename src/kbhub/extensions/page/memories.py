"""Pages of memories, with their strength, and of the query log: unanswered questions, documents read, slow queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import get_args
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from kbhub.editing.documents import write_document
from kbhub.editing.paths import why_not_writable
from kbhub.errors import UsageError
from kbhub.extensions.page.documents import read_address
from kbhub.extensions.page.site import Form, number_of, posted, site_of
from kbhub.hub import Hub
from kbhub.memory import catalog
from kbhub.memory.changes import forget, remember
from kbhub.memory.files import MemoryFile, read, slug
from kbhub.memory.lists import memories, restore, trashed
from kbhub.memory.transfer import refile
from kbhub.reading.nearness import means_in, vectors_of
from kbhub.render.html import strength_curve
from kbhub.usage.gaps import close_gap, gaps_and_unanswered, show_log
from kbhub.workspace.discovery import Scope

PAGE = 50

SCOPES: tuple[Scope, ...] = get_args(Scope)

NEAR_SIMILARITY = 0.65
"""Cosine from which two memories are offered for merging."""

MOST_ALIKE = 20

_SENTENCE_END = re.compile(r"(?<=[.!?] )|(?<=\n\n)")
_WORD = re.compile(r"\w+")

MOVES: tuple[Scope, ...] = ("project", "user", "shared")
"""Scopes that a memory can be moved to; in a team's base each row is its author's."""


def memories_page(request: Request) -> Response:
    """List the memories, strongest first, or search among them."""
    site, values = site_of(request), request.query_params
    site.look()
    query, tag = values.get("q", ""), values.get("tag", "")
    scope = _scope(values.get("scope", ""))
    offset = number_of(values.get("offset", ""))
    listed = memories(site.hub, query or None, scope=scope, tags=[tag] if tag else [], limit=PAGE, offset=offset)
    every, now = catalog.all_known(site.hub), site.hub.options.clock()
    known = {memory.facts.id: memory for memory in every}
    replaced = {memory.facts.id for memory in every if memory.facts.superseded_by}
    changed = [one for one in catalog.subjects_changed(site.hub) if one.id not in replaced] if not query else ()
    counted = catalog.matching(catalog.all_known(site.hub, scope), tags=[tag] if tag else [])
    superseded = 0 if query else sum(bool(memory.facts.superseded_by) for memory in counted)
    after = urlencode({"q": query, "tag": tag, "scope": scope or "", "offset": offset + PAGE})
    return site.page(
        request,
        "memories.html",
        title="Memories",
        query=query,
        tag=tag,
        scope=scope or "",
        scopes=SCOPES,
        listed=[(memory, strength_curve(known[memory.id], now)) for memory in listed.memories if memory.id in known],
        total=listed.total - superseded,
        superseded=superseded,
        notes=listed.notes,
        next_page=f"/memories?{after}" if offset + PAGE < listed.total else None,
        changed=changed,
        alike=() if query else alike(site.hub, every),
        trash=trashed(site.hub),
    )


def memory_page(request: Request) -> Response:
    """Show one memory, and those it replaces."""
    site = site_of(request)
    hub, every = site.hub, catalog.all_known(site.hub)
    memory = catalog.located(hub, request.query_params.get("id", ""), None, every)
    stored = read(memory.shelf, memory.path)
    by_id = {one.facts.id: catalog.described(hub, one) for one in every}
    return site.page(
        request,
        "memory.html",
        title=memory.title,
        memory=catalog.described(hub, memory, text=stored.body if stored else ""),
        curve=strength_curve(memory, hub.options.clock()),
        older=[by_id.get(name, name) for name in memory.facts.supersedes],
        newer=[by_id.get(name, name) for name in memory.facts.superseded_by],
        changed=[one for one in catalog.subjects_changed(hub) if one.id == memory.facts.id],
        moves=[scope for scope in MOVES if scope != memory.shelf.scope],
    )


def merge_page(request: Request) -> Response:
    """Show the memory that would replace some others, to be edited and written."""
    site, ids = site_of(request), request.query_params.getlist("id")
    chosen = _to_merge(site.hub, ids)
    bodies = [stored.body if (stored := read(memory.shelf, memory.path)) else "" for memory in chosen]
    return site.page(
        request,
        "merge.html",
        title=f"Merge {len(chosen)} memories",
        memories=[catalog.described(site.hub, memory, text=body) for memory, body in zip(chosen, bodies, strict=True)],
        text=merged_text(bodies),
        tags=_joined(memory.facts.tags for memory in chosen),
        about=_joined(memory.facts.about for memory in chosen),
    )


def merged_text(bodies: Sequence[str]) -> str:
    """Join texts, without the sentences whose words all stand in one other."""
    parts = [part for body in bodies for part in _SENTENCE_END.split(f"{body.strip()}\n\n") if part]
    words = [set(_WORD.findall(part.casefold())) for part in parts]

    def is_said(at: int) -> bool:
        return any(words[at] < other or (words[at] == other and place < at) for place, other in enumerate(words))

    return "".join(part for at, part in enumerate(parts) if not words[at] or not is_said(at)).strip()


@posted
def change(request: Request, form: Form) -> str:
    """Remember, confirm, edit, merge, move, forget or restore, as the tools and commands do."""
    site, ids, action = site_of(request), form.getlist("id"), form.get("action", "")
    site.check_writable("memories")
    hub = site.hub
    if not ids and action != "remember":
        raise UsageError("Select a memory first.")
    name = ""
    match action:
        case "remember":
            name = remember(hub, form.get("text", "")).memory.ref
        case "confirm":
            for one in ids:
                remember(hub, id=one)
            name = ids[0] if len(ids) == 1 else ""
        case "misleading":
            name = remember(hub, id=ids[0], misleading=True).memory.ref
        case "edit":
            name = remember(hub, form.get("text", ""), id=ids[0], tags=form.get("tags", "").split()).memory.ref
        case "merge":
            chosen = _to_merge(hub, ids)
            done = remember(
                hub,
                form.get("text", ""),
                tags=form.get("tags", "").split(),
                about=_joined(memory.facts.about for memory in chosen),
                scope=chosen[0].shelf.scope,
                supersedes=[memory.facts.id for memory in chosen],
                rejected=chosen[0].facts.rejected,
            )
            name = done.memory.ref
        case "move":
            if (scope := _scope(form.get("scope", ""))) not in MOVES:
                raise UsageError(f"A memory can be moved to {', '.join(MOVES)}.")
            name = refile(hub, ids[0], scope).ref
        case "forget":
            forget(hub, ids)
        case "restore":
            name = restore(hub, ids[0]).ref
        case _:
            raise UsageError(f"Unknown action {action!r}.")
    return f"/memories/one?{urlencode({'id': name})}" if name else "/memories"


def _to_merge(hub: Hub, ids: list[str]) -> list[MemoryFile]:
    every = catalog.all_known(hub)
    located_files = (catalog.located(hub, name, None, every) for name in ids)
    chosen = list({one.key: one for one in located_files}.values())
    if len(chosen) < 2:
        raise UsageError("Select two or more memories to merge.")
    if replaced := next((memory for memory in chosen if memory.facts.superseded_by), None):
        raise UsageError(f"The memory {replaced.title!r} was replaced by {', '.join(replaced.facts.superseded_by)}.")
    if len({memory.facts.rejected for memory in chosen}) > 1:
        raise UsageError("What was tried, and not taken, cannot be merged with what holds.")
    if len(scopes := {memory.shelf.scope for memory in chosen}) > 1:
        named = ", ".join(sorted(scopes))
        raise UsageError(f"The memories are in several scopes ({named}). Move them to one scope first.")
    return chosen


def _joined(lists: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(item for items in lists for item in items))


def _scope(name: str) -> Scope | None:
    if name and name not in SCOPES:
        raise UsageError(f"Unknown scope {name!r}. Scopes: {', '.join(SCOPES)}.")
    return name or None


def alike(hub: Hub, memories: Iterable[MemoryFile]) -> list[tuple[MemoryFile, str, MemoryFile, str, float]]:
    """Return pairs of memories near in meaning, nearest first, each with its ref, without superseded ones."""
    current = [memory for memory in memories if not memory.facts.superseded_by]
    bases = {memory.shelf.base.id: memory.shelf.base for memory in current}
    means = {name: means_in(hub, base) for name, base in bases.items()}
    vectors = vectors_of(means, [(memory.shelf.base.id, memory.path) for memory in current])
    similar = np.triu(vectors @ vectors.T, 1)
    near = (
        (current[one], current[other], float(similar[one, other]))
        for one, other in np.argwhere(similar >= NEAR_SIMILARITY).tolist()
    )
    pairs = [pair for pair in near if pair[0].facts.rejected == pair[1].facts.rejected]
    best = sorted(pairs, key=lambda pair: (-pair[2], pair[0].path, pair[1].path))[:MOST_ALIKE]
    return [(one, catalog.ref(hub, one), other, catalog.ref(hub, other), similarity) for one, other, similarity in best]


LOGGED = 30


def gaps_page(request: Request) -> Response:
    """Show gaps and the history of questions."""
    site = site_of(request)
    found, log = gaps_and_unanswered(site.hub), show_log(site.hub, LOGGED)
    return site.page(
        request,
        "gaps.html",
        title="Asked, not answered",
        found=found,
        log=log,
        places=[base for base in site.bases() if why_not_writable(site.hub, base) is None and base.kind == "document"],
        slug=slug,
    )


@posted
def close(request: Request, form: Form) -> str:
    """Close a gap for good."""
    close_gap(site_of(request).hub, form.get("id", ""))
    return "/gaps"


@posted
def start_document(request: Request, form: Form) -> str:
    """Write the beginning of a document that would answer a gap, and show it."""
    question, path = form.get("question", "").strip(), form.get("path", "").strip()
    if not question or not path:
        raise UsageError("Enter the question, and the path of the document that should answer it.")
    title = " ".join(question.rstrip("?").split())
    text = f"# {title[:1].upper()}{title[1:]}\n\nAsked as: {' '.join(question.split())}\n\n"
    return read_address(write_document(site_of(request).hub, f"{form.get('base', 'project')}@{path}", text=text).ref)
