"""How the command line opens a hub, and takes what it is given as text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.cli.verbosity import log_to_stderr
from kbhub.discovery import parse_base_arguments
from kbhub.errors import UsageError
from kbhub.options import HubOptions
from kbhub.places import WORKING_DIRECTORY_GONE, working_directory

if TYPE_CHECKING:
    from kbhub.cli.given import Places


def hub_options(places: Places, *, serve: bool = False, every_base: bool = False) -> HubOptions:
    """Give what the command line says about where to look.

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
    )


def decoded(argument: str) -> str:
    """Give an argument as Unicode: Python hands over bytes that the locale does not know as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
