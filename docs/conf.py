"""The documentation site: `make docs` builds it with Sphinx, MyST and furo into build/site."""  # noqa: INP001  # Sphinx reads it

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING

from sphinx.ext.napoleon import Config, GoogleDocstring

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Homepage"]

project = "jaxobs"
author = copyright = "the jaxobs authors"  # noqa: A001  # Sphinx gives it this name
release = version = PROJECT["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["generators", "_static"]
default_role = "code"  # single backticks in docstrings
nitpicky = True  # a reference that leads nowhere is a warning, and a warning is an error

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3  # links to headings, as forges have them

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"jaxobs {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
# Names of types that stand in signatures and have no entry of their own on these pages.
nitpick_ignore_regex = [("py:.*", r".*")]

linkcheck_ignore = [
    r"https?://localhost.*",  # where the reader's own server answers
    re.escape(REPOSITORY) + r"/(blob|tree)/.*",  # files of this repository: a test looks for them here
]
linkcheck_timeout = 20

LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)]*)?\))")


def repository_links(_: Sphinx, page: str, source: list[str]) -> None:
    """Let links out of docs/, which lead to a file of the repository, lead to that file on its forge."""
    folder = dirname(f"docs/{page}")

    def absolute(match: re.Match[str]) -> str:
        path = normpath(join(folder, match[2]))
        if path.startswith("docs/") or not (ROOT / path).exists():
            return match[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{match[1]}{REPOSITORY}/{kind}/main/{path}{match[3]}"

    source[0] = LINK.sub(absolute, source[0])


def google_sections(
    application: Sphinx, kind: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Read the sections of docstrings (`Args:`); in an attribute's napoleon would take a colon for the end of a type."""
    if kind != "attribute":
        lines[:] = GoogleDocstring(lines, Config(), application, kind, name, documented, options).lines()


def setup(application: Sphinx) -> None:
    """Called by Sphinx."""
    application.connect("autodoc-process-docstring", google_sections)
    application.connect("source-read", repository_links)
