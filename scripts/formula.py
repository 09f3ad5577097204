"""Print the Homebrew formula of a release, made of its source archive.

    python scripts/formula.py dist/kbhub-1.2.3.tar.gz OWNER/kbhub > kbhub.rb

The wheel is read from the same folder. The formula installs it, and what `requirements.txt` in the archive names, as
wheels with verified hashes. Homebrew's own way, building every dependency from source, would need Rust and half an hour
on the user's machine.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tarfile
from pathlib import Path

PYTHON = "3.13"
"""Of the versions that kbhub supports, one that Homebrew keeps for years."""

TEMPLATE = """\
class Kbhub < Formula
  desc "Search the Markdown you already have, from the shell and from coding agents"
  homepage "https://github.com/{repository}"
  url "https://github.com/{repository}/releases/download/v{version}/{archive}"
  sha256 "{digest}"
  license all_of: ["MIT", "Apache-2.0"]

  depends_on "python@{python}"

  resource "wheel" do
    url "https://github.com/{repository}/releases/download/v{version}/{wheel}"
    sha256 "{wheel_digest}"
  end

  def install
    system "python{python}", "-m", "venv", libexec
    resource("wheel").stage do
      system libexec/"bin/pip", "install", "--no-deps", "{wheel}"
    end
    libexec.install "requirements.txt"
    bin.install_symlink libexec/"bin/kbhub"
  end

  # Other wheels come after Homebrew has rewritten the paths in libraries: those in wheels have no room for longer ones.
  def post_install
    system libexec/"bin/pip", "install", "--require-hashes", "--requirement", libexec/"requirements.txt"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/kbhub --version")
  end
end
"""


def formula(archive: Path, repository: str) -> str:
    """Return the formula for a source archive.

    Args:
        archive: the archive, named `kbhub-VERSION.tar.gz`, with the wheel in the same folder.
        repository: where the release is, as `OWNER/NAME`.

    Raises:
        OSError: a file cannot be read; there may be no wheel.
        ValueError: the archive has another name, or no `requirements.txt`; or the repository has another form.
    """
    named = re.fullmatch(r"kbhub-(\d[\w.]*)\.tar\.gz", archive.name)
    if named is None:
        raise ValueError(f"{archive} is not named kbhub-VERSION.tar.gz; `uv build --sdist` makes such a file")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ValueError(f"{repository!r} is not of the form OWNER/NAME")
    with tarfile.open(archive) as opened:
        if f"kbhub-{named[1]}/requirements.txt" not in opened.getnames():
            raise ValueError(f"{archive} has no requirements.txt, which the formula installs from")
    wheel = archive.with_name(f"kbhub-{named[1]}-py3-none-any.whl")
    return TEMPLATE.format(
        repository=repository,
        version=named[1],
        archive=archive.name,
        digest=_digest(archive),
        wheel=wheel.name,
        wheel_digest=_digest(wheel),
        python=PYTHON,
    )


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    """Print the formula."""
    if len(sys.argv) != 3:
        sys.stderr.write("Usage: python scripts/formula.py ARCHIVE OWNER/NAME\n")
        return 2
    try:
        sys.stdout.write(formula(Path(sys.argv[1]), sys.argv[2]))
    except (OSError, ValueError, tarfile.TarError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
