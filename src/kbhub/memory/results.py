"""Results of the functions about memories: frozen, and the same in Python, MCP and `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kbhub.frozen import Model
from kbhub.search.document_signals import Source
from kbhub.types import Problem
from kbhub.workspace.discovery import Scope

Did = Literal["stored", "strengthened", "updated", "confirmed", "doubted"]


class Memory(Model):
    """One memory, as its file says."""

    id: str = Field(description="Id, for `remember(id=…)` and `forget`.")
    ref: str = Field(description="Ref, for `read`.")
    scope: Scope = Field(description="`project`, `user`, `shared` or `team`.")
    title: str = Field(description="Its title.")
    text: str = Field("", description="What was remembered; a list shortens it.")
    tags: tuple[str, ...] = Field((), description="Its tags.")
    namespace: str = Field("", description="Namespace, `a/b`.")
    strength: float = Field(ge=0, le=1, description="Strength, 0 to 1: confidence times decay.")
    uses: int = Field(0, description="How often it was read, cited or confirmed.")
    last_use: str | None = Field(None, description="When it was last used (ISO 8601, UTC).")
    created: str | None = Field(None, description="When it was remembered.")
    updated: str | None = Field(None, description="When its text or tags were last changed.")
    author: str = Field("", description="Role of the database that wrote it, in a team's base.")
    by: str = Field("", description="Client that remembered it, or `user`.")
    source: Source = Field("agent", description="Where it comes from: `user` or `agent`.")
    project: str = Field("", description="Project it was learned in.")
    commit: str = Field("", description="Commit that was checked out then.")
    origin: str = Field("", description="What it was learned or imported from.")
    session: str = Field("", description="Id of the session in which it was learned.")
    about: tuple[str, ...] = Field((), description="Documents or code (`file::symbol`) it is about.")
    supersedes: tuple[str, ...] = Field((), description="Ids of older memories it replaces.")
    superseded_by: tuple[str, ...] = Field((), description="Ids of newer memories that replace it.")
    may_supersede: tuple[str, ...] = Field((), description="Ids of similar memories it may replace.")
    rejected: bool = Field(False, description="Whether it tells of a way that was tried, and not taken.")
    misleading: int = Field(0, description="How often it misled since it was confirmed or changed.")
    score: float | None = Field(None, description="Score in a search, 0 to 1.")
    outdated: str | None = Field(None, description="Why it may be outdated, if a search found that.")


class MemoryList(Model):
    """Memories, listed or found."""

    memories: tuple[Memory, ...] = Field((), description="Strongest first; in a search, best match first.")
    total: int = Field(0, description="Number of memories that match the filters.")
    notes: tuple[str, ...] = Field((), description="Notes, as sentences.")


class Near(Model):
    """A memory that is near to another in meaning and says something else."""

    id: str = Field(description="Its id.")
    ref: str = Field(description="Its ref.")
    text: str = Field(description="What it says, shortened.")
    similarity: float = Field(description="Cosine similarity of the two.")
    rejected: bool = Field(False, description="Whether it tells of a way that was tried, and not taken.")


class Remembered(Model):
    """What `remember` did."""

    memory: Memory = Field(description="The memory as it is now.")
    did: Did = Field(
        description=(
            "`stored`: a new one; `strengthened`: one that says the same; `updated`, `confirmed`, `doubted`: the one "
            "with the given id."
        )
    )
    near: tuple[Near, ...] = Field((), description="Similar memories: does it supersede one of them?")
    superseded: tuple[str, ...] = Field((), description="Ids of the memories it replaced.")
    notes: tuple[str, ...] = Field((), description="Notes on what else to know or do, as sentences.")


class Forgotten(Model):
    """What `forget` did."""

    memories: tuple[Memory, ...] = Field((), description="The forgotten memories.")
    trash: Path | None = Field(None, description="Where their files are now.")
    notes: tuple[str, ...] = Field((), description="How long they are kept there, and how to restore them.")


class Trashed(Model):
    """A forgotten memory that the trash still has."""

    name: str = Field(description="Its path in the trash, for `kbhub memories restore`.")
    id: str = Field(description="Its former id.")
    scope: Scope = Field(description="`project`, `user`, `shared` or `team`.")
    title: str = Field(description="Its title.")
    text: str = Field(description="What it says, shortened.")
    forgotten: str = Field(description="When it was forgotten (ISO 8601, UTC).")


class TrashedList(Model):
    """What `kbhub memories restore` can bring back."""

    memories: tuple[Trashed, ...] = Field((), description="Latest first.")


class Moved(Model):
    """What `move` did."""

    moved: int = Field(description="Memories that belong to this project now.")
    known: int = Field(0, description="Memories this project already had; the files of the others are in the trash.")
    renamed: int = Field(0, description="Memories that got a new id, because it was taken here.")
    source: Path = Field(description="Where they were before.")
    target: Path = Field(description="Where they are now.")


class Record(Model):
    """A memory in an export."""

    scope: Scope = Field("project", description="`project`, `user`, `shared` or `team`.")
    file: str = Field(description="Its file: front matter and text, Markdown.")
    uses: int = Field(0, ge=0, description="How often it was used.")
    last_use: str | None = Field(None, description="ISO 8601.")


class ExportHead(Model):
    """What an export says of itself."""

    format: Literal["kbhub-memories"] = Field(description="What this document is.")
    version: Literal[1] = Field(description="Version of the format.")


class Exported(ExportHead):
    """Memories as one JSON document."""

    memories: tuple[Record, ...] = Field((), description="The memories, by scope and id.")


class Incoming(ExportHead):
    """An export as it comes in, each memory still to be checked: one that cannot be taken stops no other."""

    memories: tuple[Any, ...] = Field((), description="What should be records.")


class Imported(Model):
    """What `import` did."""

    format: Literal["kbhub", "basic-memory", "mcp-memory"] = Field(description="The format of the source.")
    added: int = Field(0, description="New memories.")
    known: int = Field(0, description="Memories that already existed here.")
    failed: tuple[Problem, ...] = Field((), description="What could not be imported, and why.")


class ChangedSubject(Model):
    """A memory whose subject changed."""

    id: str = Field(description="Id of the memory.")
    ref: str = Field(description="Its ref.")
    title: str = Field(description="Its title.")
    subject: str = Field(description="What it is about.")
    state: Literal["changed", "vanished"] = Field(description="What happened to that.")
