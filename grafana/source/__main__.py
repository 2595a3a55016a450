"""Write grafana/dashboards/*.json: `python -m grafana.source`, with `--check` only compare.

Exit status 1: a file is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.source.building import dashboard
from grafana.source.chart import Page
from grafana.source.pages import PAGES

FOLDER: Final = Path(__file__).parents[1] / "dashboards"


def text(page: Page) -> str:
    """The dashboard as its file says it; keys in Grafana's own order."""
    return json.dumps(dashboard(page).build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write or compare every file; a file that belongs to no page is out of date too."""
    wanted = {FOLDER / f"{page.uid}.json": text(page) for page in PAGES}
    if arguments != ["--check"]:
        FOLDER.mkdir(exist_ok=True)
        for file, content in wanted.items():
            file.write_text(content, encoding="utf-8")
    found = {file: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.json")}
    different = sorted(
        file.name for file in wanted.keys() | found.keys() if wanted.get(file) != found.get(file)
    )
    if different:
        sys.stderr.write(f"{', '.join(different)}: not what grafana/source says: run `make dashboards`\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
