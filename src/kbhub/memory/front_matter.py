"""The front matter of a memory's file, as kbhub writes it; its schema is `schemas/memory.schema.json`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kbhub.search.strength import Source


class MemoryFrontMatter(BaseModel):
    """Front matter of a memory; every key may be missing, and others are left alone."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        title="Memory front matter",
        json_schema_extra={
            "examples": [
                {
                    "id": "k7f3a9c2",
                    "title": "Releases need the VPN",
                    "created": "2026-03-02T09:15:00+00:00",
                    "updated": "2026-03-02T09:15:00+00:00",
                    "by": "user",
                    "source": "user",
                    "tags": ["deploy"],
                    "about": ["runbooks/deploy.md", "scripts/release.py::upload"],
                },
                {},
            ]
        },
    )

    id: str = Field("", description="Its id; without one, the file's name without its ending.")
    title: str = Field("", description="Its title; without one, the first heading or the file's name.")
    created: str = Field("", description="When it was written: ISO 8601, UTC unless it says otherwise.")
    updated: str = Field("", description="When it was last changed or confirmed: as `created`.")
    by: str = Field("", description="Who wrote it: name of the MCP client, or `user`.")
    source: Source = Field("agent", description="On whose word it rests: `user`, `agent`, or `promoted` from others.")
    project: str = Field("", description="The project it was written in, as kbhub tells projects apart.")
    commit: str = Field("", description="Commit of the project then.")
    from_: str = Field("", alias="from", description="From what it was learned or imported, in words.")
    tags: str | list[str] = Field([], description="Tags to find it by.")
    namespace: str = Field("", description="Where it is filed: names with `/` between them, `ops/deploy`.")
    about: str | list[str] = Field(
        [], description="What it is about: documents (`path.md`, `id@path.md`) and code (`file`, `file::symbol`)."
    )
    about_hash: dict[str, str] = Field(
        {}, description="What it is about → hash of that when it was written, to notice that it changed."
    )
    refers: str = Field("", description="Ref of a document that it follows.")
    supersedes: str | list[str] = Field([], description="Ids of older memories that it takes the place of.")
    superseded_by: str | list[str] = Field([], description="Ids of memories that took its place; it ranks lower then.")
