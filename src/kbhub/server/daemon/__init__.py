"""The shared daemon, one process for many clients, and the light code that talks to it."""

import importlib
import sys
import threading
import types


def _defer(name: str) -> None:
    """Import a module when something of it is used."""
    stand_in, lock = types.ModuleType(name), threading.Lock()

    def used(attribute: str) -> object:
        with lock:
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            module = importlib.import_module(name)
        stand_in.__dict__.update(module.__dict__)
        return getattr(module, attribute)

    stand_in.__getattr__ = used  # type: ignore[method-assign]
    sys.modules.setdefault(name, stand_in)


# Dataclasses import inspect for what a window does not need: a megabyte of each, and 10 of the 60 ms of a hook. It
# stands here, because whatever a window loads comes after the package itself.
_defer("ast")
_defer("inspect")
