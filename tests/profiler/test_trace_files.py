"""Kept traces lie where XProf looks, one run for all ranks of a minute."""

from pathlib import Path

from jaxobs_plugins.probes.profiler.windows import write_trace

AT = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def test_ranks_of_a_minute_are_the_hosts_of_one_run(tmp_path):
    paths = [write_trace(str(tmp_path), rank, b"trace", AT + rank) for rank in range(3)]
    run = tmp_path / "plugins" / "profile" / "2023_11_14_22_13"
    assert [Path(path) for path in paths] == [run / f"rank_0000{rank}.xplane.pb" for rank in range(3)]
    assert sorted(map(str, run.iterdir())) == sorted(paths)


def test_a_second_trace_of_a_rank_is_a_run_of_its_own(tmp_path):
    first = write_trace(str(tmp_path), 0, b"first", AT)
    second = write_trace(str(tmp_path), 0, b"second", AT + 5)
    assert Path(first).read_bytes() == b"first"
    assert Path(second) == tmp_path / "plugins/profile/2023_11_14_22_13_25/rank_00000.xplane.pb"
