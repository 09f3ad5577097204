"""Whether a process id is still the process that wrote it down. Light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

START_FIELD = 19
"""Of `/proc/PID/stat`, counted from behind the name in brackets: the start in clock ticks since boot (proc(5): 22)."""

PS_SECONDS = 2.0
"""How long `ps` may take; it reads a table of the kernel."""


def process_mark(pid: int) -> str | None:
    """Give what tells a process from every later one of the same id: when it started.

    Args:
        pid: its id.

    Returns:
        Text to be compared with another; none if there is no such process, or the system does not say.
    """
    if sys.platform == "win32":
        return None
    if Path("/proc/self/stat").exists():
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return f"{boot} {int(fields[START_FIELD])}"
        except (OSError, ValueError, IndexError):
            return None
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False)  # noqa: S603 - an int
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
