"""The agent gives way to the job, also where Linux shares out time by sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.agent.main import AUTOGROUP, NICENESS
from tests.agent.beside import PATIENCE, AgentProcess
from tests.waiting import wait_for

Start = Callable[..., AgentProcess]

GIVE_WAY = """
import sys, threading
from pathlib import Path
from jaxobs.agent.main import give_way
give_way(Path(sys.argv[1]))
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
"""


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel has no autogroups")
def test_the_agents_process_and_its_session_come_after_the_job(start_agent: Start) -> None:
    before = AUTOGROUP.read_text()
    agent = start_agent().snapshot()["agent"]["pid"]
    assert os.getsid(agent) == agent
    assert os.getpriority(os.PRIO_PROCESS, agent) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    told = Path(f"/proc/{agent}/autogroup")
    wait_for(lambda: told.read_text().endswith(f"nice {NICENESS}\n"), f"the agent's niceness in {told}")
    assert AUTOGROUP.read_text() == before, "the job's own session was changed"


@pytest.mark.parametrize("leads", [True, False])
def test_only_a_session_of_its_own_is_lowered(tmp_path: Path, leads: bool) -> None:
    autogroup = tmp_path / "autogroup"
    autogroup.write_text("")
    command = [sys.executable, "-c", GIVE_WAY, str(autogroup)]
    subprocess.run(command, check=True, timeout=PATIENCE, start_new_session=leads)
    assert autogroup.read_text() == (str(NICENESS) if leads else "")


def test_where_there_are_no_autogroups_it_goes_without(tmp_path: Path) -> None:
    command = [sys.executable, "-c", GIVE_WAY, str(tmp_path / "missing")]
    subprocess.run(command, check=True, timeout=PATIENCE, start_new_session=True)
    assert not (tmp_path / "missing").exists()
