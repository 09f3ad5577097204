"""What the package adds to kbhub. Imported at every start, so it only names things."""

from kbhub.workspace.extensions import Extension, Format

EXTENSION = Extension(
    formats=(Format((".vtt",), "captions", "other", "kbhub_captions.captions:read_captions"),),
    signals=("kbhub_captions.drafts:SIGNAL",),
)
