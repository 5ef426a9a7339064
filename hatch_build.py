"""What the package index shows: README.md with links that work there.

Links of README.md are relative, so that they work in a checkout of any version. The
index has no files beside the text, so each of them becomes a link into the repository,
whose address is in `[project.urls]`. Without one they become plain words.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Fills `readme`, which pyproject.toml leaves to this file."""

    def update(self, metadata: dict) -> None:
        """Set the text of the package's page."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        made = absolute(text, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": made}


def absolute(text: str, repository: str | None) -> str:
    """Return markdown with its relative links made absolute, pictures as raw files."""

    def replace(link: re.Match) -> str:
        if repository is None:
            return "" if link["mark"] else link["text"]
        kind = "raw" if link["mark"] else "blob"
        return (
            f"{link['mark']}[{link['text']}]({repository}/{kind}/HEAD/{link['path']})"
        )

    return LINK.sub(replace, text)
