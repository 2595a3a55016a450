"""What a browser would see of a page: its elements, where they are balanced, and its text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br"}


class Read(HTMLParser):
    """Fails where an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [
            given
            for name, given in self.elements
            if name == tag and all((given.get(key.rstrip("_").replace("_", "-")) or "").split()[:1] == [value] or
                                   value in (given.get(key.rstrip("_").replace("_", "-")) or "").split()
                                   for key, value in attributes.items())
        ]  # fmt: skip
