#!/usr/bin/env python3
"""Looks for dead links in a built site: check-site.py FOLDER.

Every link must lead to a file of the folder and, behind a #, to an element of that page. Links to
other hosts are not followed. Exit code 1 if a link is dead; each is printed with its page.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the names of its elements."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


def dead_links(folder):
    """Pairs of a page and a dead link of it."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        # Its links are those of any folder of the server.
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            fragment = unquote(parts.fragment)
            known = pages[target].names if target in pages else ()
            if not target.is_file() or fragment and fragment not in known:
                yield path.relative_to(folder), link


def main():
    folder = Path(sys.argv[1]).resolve()
    count = sum(1 for _ in folder.rglob("*.html"))
    dead = list(dead_links(folder))
    for page, link in dead:
        print(f"check-site: {page}: {link} leads nowhere", file=sys.stderr)
    if count < 10:
        sys.exit(f"check-site: {folder} has only {count} pages")
    if dead:
        sys.exit(1)
    print(f"check-site: no dead link in {count} pages")


if __name__ == "__main__":
    main()
