"""The tools by name, for configuration, and the tools that other names mean."""

from __future__ import annotations

from typing import Literal, get_args

from kbhub.values import struct

ToolName = Literal[
    "search", "read", "ask", "related", "tags", "status", "remember", "memories", "forget",
    "write_document", "delete_document", "rename_document", "audit",
]  # fmt: skip


@struct
class ToolKind:
    """What is known of a tool without loading it."""

    title: str
    aliases: str
    """Names of such tools in other servers (mdvault, knowledgebased, qmd, basic-memory, enquire, mcp-obsidian and the
    reference memory server), or what an agent that did not look makes up; separated by spaces."""
    core: bool = False
    """Whether it is offered unless the settings say otherwise."""
    loaded: bool = False
    """Whether it asks clients that hide tools until they are searched for to keep it in sight."""
    by_model: bool = False
    """Whether it is offered as those are, but only where a model can do its work: the client's, or one of Ollama."""
    writes: Literal["memories", "documents"] | None = None
    """What it writes: `readOnly` takes such tools away, and document writers need a base that may be written."""
    destructive: bool = False


TOOLS: dict[ToolName, ToolKind] = {
    "search": ToolKind(
        "Search notes and docs",
        "query find vault_search search_knowledge search_semantic search_notes search_docs search_documents "
        "semantic_search hybrid_search keyword_search query_knowledge query_notes search_vault "
        "obsidian_simple_search vsearch deep_search search_knowledge_base knowledge_search grep lookup",
        core=True,
        loaded=True,
    ),
    "read": ToolKind(
        "Read notes and docs",
        "get multi_get fetch open get_document get_note read_note read_document view_note read_content "
        "read_section read_file get_file vault_read view obsidian_get_file_contents",
        core=True,
    ),
    "ask": ToolKind(
        "Answer a question",
        "rag search_rag rag_search rag_query answer answer_question ask_question question qa ask_knowledge "
        "ask_docs summarize context_pack",
        by_model=True,
    ),
    "related": ToolKind(
        "Related documents",
        "vault_related build_context backlinks get_backlinks links get_links neighbors neighbours graph similar "
        "find_similar find_related",
        core=True,
    ),
    "tags": ToolKind(
        "Tags and their documents", "list_tags get_tags search_by_tag search_tags list_notes list_documents ls"
    ),
    "status": ToolKind(
        "Knowledge status",
        "list_sources list_bases list_collections collections sources stats vault_stats info reload "
        "reload_sources reindex refresh diagnostics health list_directory list_memory_projects index_status "
        "update",
        core=True,
    ),
    "remember": ToolKind(
        "Remember a decision or convention",
        "memorize memory_store store_memory add_memory save_memory create_memory memory_add vault_remember store "
        "memory_update update_memory reinforce create_entities",
        core=True,
        loaded=True,
        writes="memories",
    ),
    "memories": ToolKind(
        "List memories",
        "recall memory_search search_memory search_memories list_memories get_memories vault_recall recent "
        "recent_activity search_nodes read_graph",
        core=True,
    ),
    "forget": ToolKind(
        "Forget memories",
        "memory_delete delete_memory delete_memories vault_forget delete_entities",
        core=True,
        writes="memories",
        destructive=True,
    ),
    "write_document": ToolKind(
        "Write a document",
        "write_note edit_note add_knowledge update_knowledge create_note update_note append_note write write_file "
        "edit create_document update_document edit_document add_document",
        writes="documents",
        destructive=True,
    ),
    "delete_document": ToolKind(
        "Delete a document",
        "delete_note delete_knowledge delete delete_file remove_document restore",
        writes="documents",
        destructive=True,
    ),
    "rename_document": ToolKind(
        "Rename a document", "move_note rename_note rename move move_document", writes="documents"
    ),
    "audit": ToolKind("Audit documents", "audit_knowledge lint lint_wiki validate schema_validate check_links doctor"),
}

ALL: tuple[ToolName, ...] = get_args(ToolName)

CORE: tuple[ToolName, ...] = tuple(name for name, kind in TOOLS.items() if kind.core)

BY_MODEL = frozenset(name for name, kind in TOOLS.items() if kind.by_model)

DOCUMENT_WRITERS = frozenset(name for name, kind in TOOLS.items() if kind.writes == "documents")

WRITERS = frozenset(name for name, kind in TOOLS.items() if kind.writes)

MEMORY_TOOLS: frozenset[ToolName] = frozenset(("remember", "memories", "forget"))
"""Those that `memory.enabled: false` takes away."""

MEANT: dict[str, ToolName] = {alias: name for name, kind in TOOLS.items() for alias in kind.aliases.split()}
