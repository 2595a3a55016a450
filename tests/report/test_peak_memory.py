"""Memory at the peak on the page, in text and in a notebook."""

from __future__ import annotations

import re
from typing import Any

from jaxobs.model.peak_memory import TEMPORARY, Buffer, PeakMemory, Saving, places_of
from jaxobs.report.page import page
from jaxobs.report.peak_memory import Memory
from jaxobs.report.view import View
from tests.sample_document import document

HOSTILE = "<script>alert(1)</script>"


def entry(name: str = "model.py:12", live: int | None = 3 * 2**20) -> dict[str, Any]:
    buffers = (
        Buffer(
            2 * 2**20, TEMPORARY, "float32", (8, 128, 512), "dot_general", "mlp", f"/home/ada/{name}", "mlp",
            "forward", 8,
        ),
        Buffer(2**20, TEMPORARY, "bfloat16", (512, 1024), "copy"),
    )  # fmt: skip
    sums = {"argument": 2**20, "output": 2**20, "temporary": 3 * 2**20 + 64, "alias": 2**20}
    saved = (Saving("donation", 2**20, 2**20, "1 MiB is held twice: `donate_argnums`"),)
    memory = PeakMemory(sums, live, "" if live else "no schedule", buffers, places_of(buffers), saved)
    return {"function": name, "executable": "ab12", **memory.to_dict(20)}


def test_the_page_names_lines_buffers_and_what_would_free_some() -> None:
    html = page(View(document(memory_peaks=[entry(), entry("evaluate")])))
    assert 'id="peak"' in html
    assert "holds 4 MiB of a device" in html
    assert "float32[8,128,512]" in html
    assert "dot_general (forward), in each of 8 turns" in html
    assert "(no source line)" in html
    assert "<code>donate_argnums</code>" in html
    assert "Other executables (1)" in html


def test_page_and_text_show_as_many_lines() -> None:
    lines = entry() | {"places": [dict(entry()["places"][0], source=f"m.py:{n}") for n in range(100, 120)]}
    shown = (page(View(document(memory_peaks=[lines]))), str(Memory(lines)))
    assert [len(set(re.findall(r"m\.py:1\d\d", each))) for each in shown] == [10, 10]


def test_names_are_text_on_the_page() -> None:
    assert HOSTILE not in page(View(document(memory_peaks=[entry(HOSTILE)])))


def test_what_is_not_known_has_its_reason() -> None:
    html = page(View(document(memory_peaks=None, memory_peaks_reason="no buffer assignment")))
    assert "Not known: no buffer assignment." in html
    assert "temporaries: no schedule" in str(Memory(entry(live=None)))


def test_the_text_is_at_most_a_hundred_columns_wide() -> None:
    lines = str(Memory(entry("a_long_name_of_a_file_that_goes_on_and_on.py:1234"))).splitlines()
    assert max(map(len, lines)) <= 100
    assert "outputs 1 MiB (1 MiB of them donated arguments)" in " ".join(map(str.strip, lines))
