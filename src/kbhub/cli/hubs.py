"""Open a hub with the options of the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.cli.console import complain
from kbhub.cli.verbosity import log_to_stderr
from kbhub.errors import UsageError
from kbhub.hub import HubOptions
from kbhub.render.words import warnings_text
from kbhub.workspace.discovery import parse_base_arguments
from kbhub.workspace.places import WORKING_DIRECTORY_GONE, working_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.cli.options import Places
    from kbhub.types import Problem


def hub_options(places: Places, *, serve: bool = False, every_base: bool = False, warn: bool = True) -> HubOptions:
    """Return the hub's options as the command line says where to look.

    Args:
        places: what it says.
        serve: whether a client's own variables may name the workspace.
        every_base: whether every base of the global config is active.
        warn: whether to say on standard error which fields of the configuration have no effect; not where the
            command's own result does, nor by a server, which tells its client.

    Raises:
        UsageError, ConfigError: `--base` or `KBHUB_BASES` is no list of ID=PATH, or there is no directory to work for.
    """
    if places.verbose:
        log_to_stderr()
    env = dict(os.environ)
    here = working_directory()
    if here is None and places.root is None and not serve:
        raise UsageError(WORKING_DIRECTORY_GONE)
    return HubOptions(
        root=places.root,
        config=places.config,
        bases=parse_base_arguments(places.base, env),
        cache=places.cache_dir,
        serve=serve,
        every_base=every_base,
        env=env,
        typed_in=None if serve else here,
        warn=_Warnings() if warn and not serve else None,
    )


class _Warnings:
    """Says each warning once, all new ones on one line."""

    def __init__(self) -> None:
        self._told: set[Problem] = set()

    def __call__(self, warnings: Sequence[Problem]) -> None:
        fresh = [warning for warning in warnings if warning not in self._told]
        self._told.update(fresh)
        if fresh:
            complain(warnings_text(fresh))


def decoded(argument: str) -> str:
    """Return an argument as Unicode: Python hands over bytes that the locale does not know as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
