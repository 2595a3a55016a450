"""The job's modules travel once after each compile, and not where they would fill the trace."""

from jaxobs.plugin.protocol import Progress
from jaxobs_plugins.probes.profiler.modules import AGAIN_SECONDS, ModulesInTraces


def test_modules_are_wanted_once_after_each_compile_and_again_after_a_while():
    modules = ModulesInTraces(2**25)
    assert modules.wanted(Progress(1, 100, 1_000), 0.0, kept=False)
    modules.given(Progress(1, 100, 1_000), 0.0)
    assert not modules.wanted(Progress(50, 100, 1_000), 60.0, kept=False)
    assert modules.wanted(Progress(50, 100, 1_000), 60.0, kept=True)
    assert modules.wanted(Progress(60, 200, 2_000), 60.0, kept=False)
    assert modules.wanted(Progress(70, 100, 1_000), AGAIN_SECONDS + 1, kept=False)
    assert modules.wanted(Progress(50, 100, 1_000, agents=2), 60.0, kept=False)  # which knows none of them


def test_modules_that_would_fill_the_trace_are_left_out():
    assert not ModulesInTraces(2**20).wanted(Progress(1, 100, 2**20), 0.0, kept=True)
