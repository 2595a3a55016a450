"""Every link within the repository leads to something, in README, docs and the other pages."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.documentation.fences import FENCE, ROOT, pages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Homepage"]
PAGES = [*pages(), *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)|<(https?://[^>]+)>")


def links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [first or second for first, second in LINK.findall(text)]


def anchors(page: Path) -> set[str]:
    """The names that forges and MyST give to headings, and those of documented Python names."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return names | set(
        re.findall(r"^\.\. auto\w+:: ([\w.]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        if path.startswith(REPOSITORY):
            target = ROOT / re.sub(r"^/(blob|tree|raw)/main/?", "", path.removeprefix(REPOSITORY))
        elif "://" in path or path.startswith("mailto:"):
            continue
        else:
            target = page.parent / path if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_the_readme_reads_outside_the_repository() -> None:
    relative = [link for link in links(ROOT / "README.md") if "://" not in link]
    assert relative == []


def test_the_projects_urls_lead_to_files_of_the_repository() -> None:
    for url in PROJECT["urls"].values():
        assert url.startswith(REPOSITORY)
        path = re.sub(r"^/(blob|tree)/main/", "", url.removeprefix(REPOSITORY))
        assert path in {"", "/issues"} or (ROOT / path).exists(), url


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 550


def test_every_file_that_code_and_settings_name_in_docs_is_there() -> None:
    named = re.compile(r"(?<![\w./-])/?(docs/[\w/.-]+\.(?:md|py|svg|png))\b")
    missing = []
    for folder in ("jaxobs", "plugins", "grafana", "deploy", "benchmarks", "docs", ".ci", "requirements"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {
                ".py",
                ".md",
                ".yml",
                ".yaml",
                ".json",
                ".toml",
                ".sbatch",
                ".libsonnet",
                ".tpl",
                ".hcl",
            }:
                missing += [
                    f"{file.relative_to(ROOT)}: {path}"
                    for path in named.findall(file.read_text())
                    if not (ROOT / path).exists()
                ]
    assert missing == []
