"""What a job saves and restores with Orbax is a phase, by the real library, which behaves as without."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import orbax.checkpoint as ocp
import pytest

from jaxobs.model.events import PhaseEnded, PhaseStarted, StepEnded
from jaxobs.probe.steps.marks import PhaseMark, StepMark
from jaxobs.testing import FakeJob, check_probe
from jaxobs_plugins.probes.orbax import OrbaxProbe
from tests.probe.conftest import Observed, observed

__all__ = ["observed"]  # a fixture


@pytest.fixture
def state() -> dict[str, Any]:
    return {"w": jnp.arange(8.0), "step": 3}


def save_of(state: Any) -> Any:
    return ocp.args.StandardSave(state)


@pytest.fixture
def manager(tmp_path: Path, observed: Observed) -> Iterator[Any]:
    options = ocp.CheckpointManagerOptions(save_interval_steps=2, enable_async_checkpointing=False)
    with ocp.CheckpointManager(tmp_path / "managed", options=options) as made:
        yield made


def phases(observed: Observed) -> list[str]:
    return [event.phase for event in observed.of(PhaseEnded)]


def test_the_probe_conforms_and_marks_what_is_saved_and_restored(tmp_path: Path, state: Any) -> None:
    def use() -> None:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "one", state)
            checkpointer.wait_until_finished()
            checkpointer.restore(tmp_path / "one")

    job = check_probe(OrbaxProbe(), use)
    assert set(job.phases) == {"checkpoint", "initialisation"}


def test_one_save_of_a_manager_is_one_phase_and_a_step_that_saves_nothing_is_none(
    observed: Observed, manager: Any, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jaxobs.probe.steps.marks.LASTING", 10**18)  # however slow the machine
    saved = [manager.save(step, args=save_of(state)) for step in range(4)]
    assert saved == [True, False, True, False]
    ended = observed.of(PhaseEnded)
    assert [event.phase for event in ended] == ["checkpoint", "checkpoint"]
    started = observed.of(PhaseStarted)
    assert [event.time for event in started] == [event.start for event in ended]


def test_time_of_a_save_inside_a_step_is_the_checkpoints(
    observed: Observed, manager: Any, state: Any
) -> None:
    with StepMark(observed.side.loops, "train", None, None):
        manager.save(0, args=save_of(state))
    (step,), (phase,) = observed.of(StepEnded), observed.of(PhaseEnded)
    assert phase.inside == "train"
    assert step.checkpoint == phase.end - phase.start


def test_the_scripts_own_phase_is_the_only_one(observed: Observed, manager: Any, state: Any) -> None:
    for name in ("checkpoint", "initialisation"):
        with PhaseMark(observed.side.loops, name):
            manager.save({"checkpoint": 0, "initialisation": 2}[name], args=save_of(state))
    assert phases(observed) == ["checkpoint", "initialisation"]


def test_restoring_is_initialisation_before_the_first_step_and_checkpoint_after_it(
    observed: Observed, manager: Any, state: Any
) -> None:
    manager.save(0, args=save_of(state))
    manager.restore(0, args=ocp.args.StandardRestore(state))
    with StepMark(observed.side.loops, "train", None, None):
        pass
    manager.restore(0, args=ocp.args.StandardRestore(state))
    assert phases(observed) == ["checkpoint", "initialisation", "checkpoint"]


def test_what_orbax_does_on_threads_of_its_own_is_no_phase(
    observed: Observed, tmp_path: Path, state: Any
) -> None:
    checkpointer = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())
    saving = threading.Thread(
        target=checkpointer.save, args=(tmp_path / "a",), kwargs={"args": save_of(state)}
    )
    saving.start()
    saving.join()
    assert phases(observed) == []
    checkpointer.save(tmp_path / "b", args=save_of(state))
    assert phases(observed) == ["checkpoint"]
    checkpointer.close()


def test_an_error_of_the_library_is_the_same_with_the_same_traceback(
    observed: Observed, tmp_path: Path, state: Any
) -> None:
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(tmp_path / "one", state)
    checkpointer.wait_until_finished()
    with pytest.raises(ValueError, match="exists") as raised:
        checkpointer.save(tmp_path / "one", state)
    files = {Path(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert "wrapping.py" not in files
    assert Path(__file__).name in files
    assert set(phases(observed)) == {"checkpoint"}
    checkpointer.close()


def test_a_wrapped_method_is_a_function_with_its_signature_and_can_be_pickled(observed: Observed) -> None:
    save = ocp.CheckpointManager.save
    assert save.__name__ == "save"
    assert list(inspect.signature(save).parameters)[:2] == ["self", "step"]
    assert pickle.loads(pickle.dumps(save)) is save


def test_after_stop_the_library_is_what_it_was() -> None:
    owners = [ocp.CheckpointManager, ocp.Checkpointer, ocp.AsyncCheckpointer, ocp.StandardCheckpointer]
    before = [dict(vars(owner)) for owner in owners]
    probe = OrbaxProbe()
    probe.start(FakeJob())
    assert [dict(vars(owner)) for owner in owners] != before
    probe.stop()
    assert [dict(vars(owner)) for owner in owners] == before


def test_the_library_is_not_imported_for_it(tmp_path: Path) -> None:

    program = (
        "import sys; from jaxobs.testing import FakeJob; from jaxobs_plugins.probes.orbax import OrbaxProbe;"
        "p = OrbaxProbe(); p.start(FakeJob()); assert 'orbax' not in sys.modules; print(p.reason)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "orbax.checkpoint has not been imported\n"
