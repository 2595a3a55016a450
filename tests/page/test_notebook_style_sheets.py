"""What a cell shows looks the same under the style sheets of each notebook, on the ground that the notebook has."""

from __future__ import annotations

from collections.abc import Callable

import nbformat
import pytest
from nbconvert import HTMLExporter

from jaxobs.report.notebook import snapshot_html
from tests.page.conftest import HERE
from tests.sample_document import document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

IMAGES = HERE.parents[1] / "docs" / "images"
COMMON = "font: 14px/1.5 sans-serif; width: 800px"
"""Font and width are the notebook's; here all have the same, so that what differs is what is done to elements."""

Looks = list[tuple[str, dict[str, str]]]
"""By element, its tag and class, and its computed style."""

VS_CODE = """<style>
  html, body {{ margin: 0; background: {ground}; color: {ink}; }}
  table, thead, tr, th, td, tbody {{ border: none !important; border-spacing: 0; border-collapse: collapse; }}
  table {{ width: 100%; }}
  table, th, tr {{ text-align: left !important; }}
  thead {{ font-weight: bold; background-color: rgba(130, 130, 130, 0.16); }}
  th, td {{ padding: 4px 8px; }}
  tr:nth-child(even) {{ background-color: rgba(130, 130, 130, 0.08); }}
</style><body class="{theme}" data-vscode-theme-kind="{theme}">"""
"""What VS Code tells the outputs of cells, by `backLayerWebView.ts` of its sources."""
COLAB = "<html theme='{theme}'><body>"
"""How Colab tells the outputs of cells of its theme."""


@pytest.fixture(scope="module")
def looks(
    node: Callable[..., dict[str, Looks]],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> dict[str, Looks]:
    """How each element of a snapshot looks, by where it is shown. The system is light, but where it says otherwise."""
    shown = snapshot_html(document())
    pages = {
        "light": f"<body>{shown}",
        "dark": f"<body>{shown}",
        "JupyterLab, light": of_jupyter(shown, "lab", "light"),
        "JupyterLab, dark": of_jupyter(shown, "lab", "dark"),
        "classic": of_jupyter(shown, "classic"),
        "VS Code, light": VS_CODE.format(ground="#fff", ink="#000", theme="vscode-light") + shown,
        "VS Code, dark": VS_CODE.format(ground="#1e1e1e", ink="#ccc", theme="vscode-dark") + shown,
        "Colab, light": COLAB.format(theme="light") + shown,
        "Colab, dark": COLAB.format(theme="dark") + shown,
    }
    folder = tmp_path_factory.mktemp("notebooks")
    wanted = {}
    for name, text in pages.items():
        path = folder / f"{name}.html"
        path.write_text(
            f"<!DOCTYPE html>{text}<style>.jaxobs.in-notebook {{ {COMMON} }}</style>", encoding="utf-8"
        )
        kept = IMAGES / f"notebook-{name.removeprefix('JupyterLab, ')}.png"
        picture = (
            str(kept) if name.startswith("Jup") and request.config.getoption("--write-screenshots") else None
        )
        wanted[name] = {
            "path": str(path),
            "scheme": "dark" if name == "dark" else "light",
            "picture": picture,
        }
    return node("notebook.mjs", pages=wanted)


def of_jupyter(shown: str, template: str, theme: str = "light") -> str:
    """A notebook whose one cell shows it, as Jupyter writes it into a page, with the style sheets of `template`."""
    output = nbformat.v4.new_output("display_data", data={"text/html": shown})
    cell = nbformat.v4.new_code_cell("obs", outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    text: str = HTMLExporter(template_name=template, theme=theme).from_notebook_node(notebook)[0]
    return text


def differ(one: Looks, other: Looks) -> list[str]:
    """A line for each property of an element that is not the same in both."""
    return [
        f"{element} {key}: {value}, not {there[key]}"
        for (element, here), (_, there) in zip(one, other, strict=True)
        for key, value in here.items()
        if value != there[key]
    ]


@pytest.mark.parametrize("name", ["JupyterLab, light", "classic", "VS Code, light", "Colab, light"])
def test_on_light_ground_it_looks_as_without_other_style_sheets(looks: dict[str, Looks], name: str) -> None:
    assert looks["light"]
    assert differ(looks[name], looks["light"]) == []


@pytest.mark.parametrize("name", ["JupyterLab, dark", "VS Code, dark", "Colab, dark"])
def test_on_dark_ground_of_a_light_system_it_is_dark(looks: dict[str, Looks], name: str) -> None:
    assert looks["dark"] != looks["light"]
    assert differ(looks[name], looks["dark"]) == []
