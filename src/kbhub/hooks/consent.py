"""The projects whose documents may reach agents without being asked for: by hooks, and as skills.

A clone comes from anywhere, so nobody hears of its documents by themselves until a person allowed it: `kbhub trust
--documents`. The grant is for a folder and the project in it; another project cloned there is another's. What the user
wrote into the data directory came with no clone, and needs no grant.
"""

from __future__ import annotations

from pathlib import Path

from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.types import Base, Workspace
from kbhub.workspace.memory_folders import identify
from kbhub.workspace.project import PROJECT_ID
from kbhub.workspace.trust import Grant


def project_root(workspace: Workspace) -> Path | None:
    """Return the folder that a grant is for: the git root, else the directory."""
    return workspace.git_root or workspace.directory


def let_speak(hub: Hub) -> Grant:
    """Let the documents of the workspace's project reach agents unasked."""
    workspace = hub.discovery().workspace
    root = project_root(workspace)
    if root is None:
        raise UsageError("No project here. Change to its directory, or name it with --root DIR.")
    found = identify(workspace)
    return hub.trust.add(root, root, use="documents", project=found.text if found else "")


def may_speak(hub: Hub) -> bool:
    """Return whether the user allowed the documents of the workspace's project to speak; so may no project at all."""
    workspace = hub.discovery().workspace
    root = project_root(workspace)
    if root is None:
        return True
    found = identify(workspace)
    return hub.trust.allows_documents(root, found.text if found else "")


def speaking_bases(hub: Hub) -> list[Base]:
    """Return the bases whose documents may reach agents without being asked for.

    The user's own always, those in the project's folder where `may_speak` says so.
    """
    root = project_root(hub.discovery().workspace)
    if may_speak(hub):
        return list(hub.discovery().bases)
    return [
        base
        for base in hub.discovery().bases
        if base.id != PROJECT_ID and (root is None or base.engine or not base.path.is_relative_to(root))
    ]
