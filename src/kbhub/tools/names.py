"""Names of the tools, and the names by which agents know such tools from other servers. Imports nothing of ours."""

from __future__ import annotations

from typing import Literal, get_args

ToolName = Literal[
    "search",
    "read",
    "ask",
    "related",
    "tags",
    "status",
    "remember",
    "memories",
    "forget",
    "write_document",
    "delete_document",
    "rename_document",
    "audit",
]
"""Every tool there is, in the order of their list."""

ALL: tuple[ToolName, ...] = get_args(ToolName)

CORE: tuple[ToolName, ...] = ("search", "read", "ask", "related", "tags", "status", "remember", "memories", "forget")
"""Those that are offered unless the settings say otherwise."""

DOCUMENT_WRITERS: frozenset[ToolName] = frozenset(("write_document", "delete_document", "rename_document"))
"""Those that need a base that may be written."""

WRITERS: frozenset[ToolName] = DOCUMENT_WRITERS | {"remember", "forget"}
"""Those that `readOnly` takes away."""

MEMORY_TOOLS: frozenset[ToolName] = frozenset(("remember", "memories", "forget"))
"""Those that `memory.enabled: false` takes away."""

ELSEWHERE: dict[ToolName, tuple[str, ...]] = {
    "search": (
        *("query", "find", "vault_search", "search_knowledge", "search_semantic", "search_notes", "search_docs"),
        *("search_documents", "semantic_search", "hybrid_search", "keyword_search"),
        *("query_knowledge", "query_notes", "search_vault", "obsidian_simple_search", "vsearch"),
        *("deep_search", "search_knowledge_base", "knowledge_search", "grep", "lookup"),
    ),
    "read": (
        *("get", "multi_get", "fetch", "open", "get_document", "get_note", "read_note", "read_document", "view_note"),
        *("read_content", "read_section", "read_file", "get_file", "vault_read", "view", "obsidian_get_file_contents"),
    ),
    "ask": (
        *(
            "rag",
            "search_rag",
            "rag_search",
            "rag_query",
            "answer",
            "answer_question",
            "ask_question",
            "question",
            "qa",
        ),
        *("ask_knowledge", "ask_docs", "summarize", "context_pack"),
    ),
    "related": (
        *("vault_related", "build_context", "backlinks", "get_backlinks", "links", "get_links", "neighbors"),
        *("neighbours", "graph", "similar", "find_similar", "find_related"),
    ),
    "tags": ("list_tags", "get_tags", "search_by_tag", "search_tags", "list_notes", "list_documents", "ls"),
    "status": (
        *("list_sources", "list_bases", "list_collections", "collections", "sources", "stats", "vault_stats", "info"),
        *("reload", "reload_sources", "reindex", "refresh", "diagnostics", "health", "list_directory"),
        *("list_memory_projects", "index_status", "update"),
    ),
    "remember": (
        *("memorize", "memory_store", "store_memory", "add_memory", "save_memory", "create_memory", "memory_add"),
        *("vault_remember", "store", "memory_update", "update_memory", "reinforce", "create_entities"),
    ),
    "memories": (
        *("recall", "memory_search", "search_memory", "search_memories", "list_memories", "get_memories"),
        *("vault_recall", "recent", "recent_activity", "search_nodes", "read_graph"),
    ),
    "forget": ("memory_delete", "delete_memory", "delete_memories", "vault_forget", "delete_entities"),
    "write_document": (
        *("write_note", "edit_note", "add_knowledge", "update_knowledge", "create_note", "update_note", "append_note"),
        *("write", "write_file", "edit", "create_document", "update_document", "edit_document", "add_document"),
    ),
    "delete_document": ("delete_note", "delete_knowledge", "delete", "delete_file", "remove_document", "restore"),
    "rename_document": ("move_note", "rename_note", "rename", "move", "move_document"),
    "audit": ("audit_knowledge", "lint", "lint_wiki", "validate", "schema_validate", "check_links", "doctor"),
}
"""Tool → what those are called in servers for the same purpose (mdvault, knowledgebased, qmd, basic-memory, enquire,
mcp-obsidian and the reference memory server), or what an agent that did not look makes up."""

MEANT: dict[str, ToolName] = {name: tool for tool, names in ELSEWHERE.items() for name in names}
"""Name from elsewhere → tool."""
