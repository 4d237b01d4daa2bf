"""Checks a built site: every link leads to a file and an anchor in it, and no page loads anything from outside.

python docs/links.py out/site

Links to other sites are only counted: whether they answer cannot be told offline.
"""

import os
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src"}  # fetched when a page is opened; so are stylesheets


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and names of one tag."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and "href" in found and found.get("rel") not in ("search", "index", "next", "prev"):
            self.loaded.append(found["href"])
        elif LOADED.get(tag) in found:
            self.loaded.append(found[LOADED[tag]])


def problems(site: Path) -> tuple[list[str], int]:
    """One line for each link that leads nowhere or loads from outside, and the number of links that were checked."""
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    pages = {name: Page() for name in sorted(files) if name.endswith(".html")}
    for name, page in pages.items():
        page.feed((site / name).read_text(encoding="utf-8"))
    found, checked = [], 0
    for name, page in pages.items():
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    found.append(f"{name} loads {address} from another site")
                continue
            checked += 1
            target = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
            if target not in files:
                found.append(f"{name} links to {address}, and there is no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {address}, and that page has no such anchor")
    return found, checked


def main() -> int:
    """Print the problems; 1 if there are any."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "index.html").is_file():
        print("error: expected the folder of a built site, as in: python docs/links.py out/site", file=sys.stderr)
        return 2
    found, checked = problems(Path(sys.argv[1]))
    print("\n".join(sorted(set(found))) or f"{checked} links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
