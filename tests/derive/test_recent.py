"""What happened just before, one by one."""

from __future__ import annotations

import pytest

from jaxobs.derive.process import RecentView
from jaxobs.model.events import Compilation
from jaxobs.vocabulary.text import EAGER


@pytest.mark.parametrize(
    ("function", "reason"), [("train_step", "the first of its function"), (EAGER, "which are not compared")]
)
def test_a_compile_that_is_no_recompilation_says_why(function: str, reason: str) -> None:
    compiled = Compilation(function, 1, 1, 1_000_000_000, (), "off", None, (), None)
    (shown,) = RecentView((compiled,), 2_000_000_000).to_dict()["compilations"]
    assert shown["recompilation"] is None
    assert reason in shown["recompilation_reason"]
    assert shown["ago"] == 1.0
