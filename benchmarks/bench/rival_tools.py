"""The other tools: how each is installed, indexes a folder, is asked and answers, as its own documentation says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbhub.models.embedding import PACKAGED_MODEL

HITS = 10
"""That each is asked for: as deep as nDCG@10 looks."""

FOLDER = "vaults"
"""Name of the folder that everybody indexes."""

NAME = "bench"
"""What a collection, project or base of it is called."""

MDVAULT_MODEL = "minishlab/potion-base-8M"
"""What mdvault loads: a folder of that name in its working directory stands for the one on the hub."""

SQLITE = """import sqlite3, sys
if sqlite3.sqlite_version_info < (3, 41) or not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3
    sys.modules["sqlite3"] = pysqlite3
"""
"""For a Python whose own SQLite mdvault cannot use (no extensions, or older than 3.41)."""

Answer = Mapping[str, Any]
"""The result of a call over MCP."""


@dataclass(frozen=True)
class Rival:
    """A tool: how it is installed, indexes a folder, is asked, and what its answers name."""

    name: str
    packages: tuple[str, ...]
    index: Callable[[Path], list[list[str]]]
    """Folder → commands."""
    update: Callable[[Path], list[str]]
    """Folder → command that takes in what changed."""
    search: Callable[[str], list[str]]
    """Query → command."""
    serve: tuple[str, ...]
    tool: str
    arguments: Callable[[str, Path], dict[str, Any]]
    """Query, folder → arguments of the tool."""
    paths: Callable[[Answer], list[str]]
    """Answer → what it names, best first; see `key`."""
    kept: tuple[str, ...]
    """Files below its home that are its index, as glob patterns."""
    reworded: Callable[[str, Sequence[str]], dict[str, Any]] | None = None
    """Query, other wordings → arguments, for a tool that takes several wordings of a question."""
    stepwise: bool = False
    """Whether it takes so long that the largest vault is indexed last, so that the others are whole if time runs out."""
    npm: bool = False
    env: Mapping[str, str] | None = None
    note: str = ""
    like: str = "kbhub, keyword"
    """What of ours does the same work."""


def text_of(answer: Answer) -> str:
    """Give the text of an answer."""
    return "\n".join(part["text"] for part in answer.get("content", []) if part.get("type") == "text")


def key(path: str) -> str:
    """Give what a path is compared by: some tools write paths as slugs, with or without the suffix."""
    return re.sub(r"[^\w]+|_+", "-", path.removesuffix(".md").lower()).strip("-")


def ranking(names: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Give the documents that an answer names, each once, best first.

    Args:
        names: paths or slugs; several parts of a document may each name it.
        known: key → document.
    """
    return list(dict.fromkeys(known.get(key(name), name) for name in names))


def qmd_query(query: str) -> str:
    """Quote words with a leading hyphen, which would otherwise exclude documents."""
    return re.sub(r'(?<!\S)-[^\s"]+', r'"\g<0>"', query)


def kbhub_paths(answer: Answer) -> list[str]:
    """Read the numbered refs of a list of hits."""
    return re.findall(rf"^\d+\. {NAME}@(.+?\.md)(?=[:# ]|$)", text_of(answer), re.MULTILINE)


def mdvault_paths(answer: Answer) -> list[str]:
    """Read its JSON; paths begin with the name of the folder."""
    return [hit["file_path"].partition("/")[2] for hit in json.loads(text_of(answer))["results"]]


def qmd_paths(answer: Answer) -> list[str]:
    """Read the structured content; paths begin with the name of the collection."""
    return [hit["file"].removeprefix("qmd://").partition("/")[2] for hit in answer["structuredContent"]["results"]]


def basic_memory_paths(answer: Answer) -> list[str]:
    """Read the permalinks, which are slugs of paths; an observation's or a relation's begins with its note's."""
    return [link.partition("/")[2] for link in re.findall(r"^- permalink: (\S+)$", text_of(answer), re.MULTILINE)]


def semble_paths(answer: Answer) -> list[str]:
    """Read its JSON; without a hit, it says so in place of them."""
    return [hit["file_path"] for hit in json.loads(text_of(answer)).get("results", [])]


RIVALS = (
    Rival(
        "mdvault",
        ("mdvault", "mcp<2", "pysqlite3-binary"),
        lambda folder: [["mdvault", "index", str(folder)]],
        lambda folder: ["mdvault", "index", str(folder)],
        lambda query: ["mdvault", "search", "--top-k", str(HITS), "--", query],
        ("mdvault", "serve"),
        "search_vault",
        lambda query, _: {"query": query, "top_k": HITS},
        mdvault_paths,
        (".local/share/mdvault/vault.db*",),
        note="hybrid (its only way), with kbhub's packaged model in place of its own, which is on a hub",
        like="kbhub",
    ),
    Rival(
        "semble",
        ("semble[mcp]",),
        lambda folder: [["semble", "search", "first", str(folder), "--content", "docs"]],
        lambda folder: ["semble", "search", "changed", str(folder), "--content", "docs"],
        lambda query: ["semble", "search", "--content", "docs", "--top-k", str(HITS), "--", query, FOLDER],
        ("semble",),
        "search",
        lambda query, folder: {"query": query, "repo": str(folder), "content": "docs", "top_k": HITS},
        semble_paths,
        (".cache/semble/*/index-docs/**/*",),
        env={"SEMBLE_MODEL_NAME": str(PACKAGED_MODEL)},
        note="hybrid, made for code, asked for documents (`--content docs`), with kbhub's packaged model in place of "
        "its own, which is on a hub; it has no command to index, so a first search counts as one",
        like="kbhub",
    ),
    Rival(
        "qmd",
        ("node@22", "@tobilu/qmd"),
        lambda folder: [["qmd", "collection", "add", str(folder), "--name", NAME]],
        lambda _: ["qmd", "update"],
        lambda query: ["qmd", "search", "-n", str(HITS), "--", qmd_query(query)],
        ("qmd", "mcp"),
        "query",
        lambda query, _: {"searches": [{"type": "lex", "query": qmd_query(query)}], "limit": HITS, "rerank": False},
        qmd_paths,
        (".cache/qmd/index.sqlite*",),
        reworded=lambda query, wordings: {
            "searches": [{"type": "lex", "query": qmd_query(one)} for one in (query, *wordings)],
            "limit": HITS,
            "rerank": False,
        },
        npm=True,
        note="BM25 alone; its three models, for vectors, expansion and reranking, cannot be had without a hub",
    ),
    Rival(
        "basic-memory",
        ("basic-memory",),
        lambda folder: [["basic-memory", "project", "add", NAME, str(folder), "--default"]],
        lambda _: ["basic-memory", "reindex", "--search"],
        lambda query: ["basic-memory", "tool", "search-notes", "--page-size", str(HITS), "--", query],
        ("basic-memory", "mcp"),
        "search_notes",
        lambda query, _: {"query": query, "page_size": HITS},
        basic_memory_paths,
        (".basic-memory/memory.db*",),
        stepwise=True,
        env={"BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false"},
        note="full text alone; its model cannot be had without a hub. Its server names notes without an excerpt",
    ),
)

OWN = {"kbhub": "hybrid", "kbhub, keyword": "keyword"}
"""Our own, as which others are asked → mode."""


def own_arguments(mode: str) -> Callable[[str, Path], dict[str, Any]]:
    """Give what kbhub's `search` is called with."""
    return lambda query, _: {"query": query, "limit": HITS, "mode": mode}


def own_reworded(mode: str) -> Callable[[str, Sequence[str]], dict[str, Any]]:
    """Give what it is called with for a question in several wordings."""
    return lambda query, wordings: {"query": query, "queries": list(wordings), "limit": HITS, "mode": mode}
