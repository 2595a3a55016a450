"""Fleet: all ranks of a run beside each other, the one that lags, and those that are silent."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import BUCKETS, Chart, Override, Page, Query, Row, columns, sorted_by
from grafana.source.expressions import (
    IN_LOOP,
    PROCESS,
    RANK,
    RUN,
    RUN_INFO_NOW,
    RUN_INFO_SEEN,
    by,
    rate,
    selected,
)
from grafana.source.links import PAGE_OF_THE_RANK
from grafana.source.look import ANY_IS_BAD, NO_LOOP
from grafana.source.pages.roofline_queries import NO_WINDOWS

_RULES: Final = "Reads rules of deploy/prometheus/rules.yml, which Prometheus must evaluate."
_NO_RULES: Final = "Prometheus does not evaluate deploy/prometheus/rules.yml, or "
_NO_STEPS: Final = f"n{NO_LOOP[1:]}"
_OF_RANK: Final = "run, rank"
_BY_RANK: Final = f"{PROCESS}, loop"
_RUN: Final = 'run_id=~"$run"'

_COMMUNICATION: Final = f"run_rank_loop:jaxobs_communication_ratio:avg5m{{{_RUN}, {IN_LOOP}}}"
_OWN: Final = f"run_rank_loop:jaxobs_input_and_host_ratio:avg5m{{{_RUN}, {IN_LOOP}}}"
_STEP_TIMES: Final = f"sum by (le) (run_loop_le:jaxobs_step_seconds_bucket:rate5m{{{_RUN}, {IN_LOOP}}})"
_SILENCE: Final = f"run_rank:jaxobs_silence_seconds:max{{{_RUN}}}"
_STALLED: Final = f"run_rank:jaxobs_stalled_seconds:rate5m{{{_RUN}}}"


def _beyond_the_mean(seconds: str) -> str:
    return f"{seconds} - on (run, run_id, loop) group_left avg by (run, run_id, loop) ({seconds})"


def _of_rank(ratio: str) -> str:
    """Of the loop in which it is largest: each is a share of a loop's own time."""
    return f"max by (run, run_id, rank) ({ratio})"


def _mean(histogram: str) -> str:
    """Of each rank, over the observations of a histogram."""
    total, count = (by("sum", _BY_RANK, rate(f"{histogram}_{part}", IN_LOOP)) for part in ("sum", "count"))
    return f"{total} / {count}"


_LAST_STEP: Final = selected("jaxobs_last_step_timestamp_seconds", IN_LOOP)
_SEEN: Final = f"count by (run, run_id) (max by (run, run_id, rank) ({RUN_INFO_SEEN}))"
"""By rank: a rank that came back elsewhere or in another attempt is one."""

_PRESENT: Final = f"count by (run, run_id) (max by (run, run_id, rank) ({RUN_INFO_NOW}))"

_SERVED: Final = selected("jaxobs_build_info", 'address!=""', 'instance=~".+:[0-9]+"')
_SCHEME: Final = f'label_replace({_SERVED}, "scheme", "$1", "address", "(https?://).*")'
_PAGE: Final = f'label_join({_SCHEME}, "page", "", "scheme", "instance")'
"""Where Prometheus reaches a process, its page is."""

RANKS: Final = Chart(
    "Ranks", f"Each rank now: where it is, how long since its last step and since its agent heard of it. {_RULES}",
    (
        Query(f"max by (run, run_id, attempt, rank, host, instance) ({RUN_INFO_NOW})", name="where", table=True),
        Query(by("max", _OF_RANK, rate("jaxobs_steps_total", IN_LOOP)), name="rate", table=True),
        Query(f"time() - {by('max', _OF_RANK, _LAST_STEP)}", name="age", table=True),
        Query(_of_rank(_COMMUNICATION), name="communication", table=True, optional=NO_WINDOWS),
        Query(_of_rank(_OWN), name="own", table=True),
        Query(f"max by (run, run_id, rank) ({_SILENCE})", name="silence", table=True),
        Query(by("max", "run, rank, page", _PAGE), name="page", table=True, optional="A job that pushes has no page."),
    ),
    "short", "table", 24, 9,
    transformations=(
        *columns({
            "rate": "steps/s", "age": "since the last step", "communication": "communication", "own": "input and host",
            "silence": "since heard of",
        }, hidden=("where", "page")),
        sorted_by("rank"),
    ),
    overrides=(
        Override("since the last step", {"unit": "s"}), Override("since heard of", {"unit": "s"}),
        Override("communication", {"unit": "percentunit"}), Override("input and host", {"unit": "percentunit"}),
        Override("page", {"links": [PAGE_OF_THE_RANK]}),
    ),
)  # fmt: skip

_PRESENCE: Final = (
    Chart("Ranks that report", "Processes of each run that Prometheus reaches.",
          (Query(_PRESENT, RUN),), "none", width=8),
    Chart("Ranks that are gone", "Seen in this time range and no longer; also right after a run has ended.",
          (Query(f"{_SEEN} - on (run, run_id) ({_PRESENT} or 0 * {_SEEN})", RUN),),
          "none", width=8, steps=ANY_IS_BAD),
    Chart("Silence", "Since the agent last heard of each training process: above some seconds its interpreter hangs. "
          f"{_RULES}",
          (Query(_SILENCE, RANK),), "s", width=8, steps=((30.0, "red"),)),
)  # fmt: skip

_HANGS: Final = Chart(
    "Ranks that stand still", "For how long no step has ended, what the thread of the loop does, and at which line. In a "
    f"collective all ranks but one wait for the device. {_RULES}",
    (Query(f"run_rank_loop:jaxobs_hang_seconds:max{{{_RUN}}}", name="hang", table=True, optional="No rank hangs."),),
    "s", "table", 24, 6,
    transformations=(*columns({"hang": "no step for"}), sorted_by("rank")),
    overrides=(Override("no step for", {"unit": "s"}),),
)  # fmt: skip

_SLOWDOWNS: Final = Chart(
    "Ranks that became slower", "How many times as long as before a step takes, since when, and what the thread of the "
    f"loop spends the time on. In a collective all ranks but one wait longer for the device. {_RULES}",
    (
        Query(f"run_rank_loop:jaxobs_slowdown_ratio:max{{{_RUN}}}", name="ratio", table=True,
              optional="No rank became slower."),
        Query(f"run_rank_loop:jaxobs_slowdown_seconds:max{{{_RUN}}}", name="age", table=True,
              optional="No rank became slower."),
    ),
    "short", "table", 24, 6,
    transformations=(*columns({"ratio": "times as long", "age": "for"}), sorted_by("rank")),
    overrides=(Override("for", {"unit": "s"}),),
)  # fmt: skip

_LAG: Final = (
    Chart("Communication by rank", "Share of the loop's wall time in collectives. Ranks wait in them for the "
          f"slowest: the one with the least wait is the one that the others wait for. {_RULES}",
          (Query(_COMMUNICATION, RANK, smallest=True),), "percentunit", empty=NO_WINDOWS),
    Chart("Input and host by rank", "Share of the loop's wall time that the rank itself holds the device up; says who "
          f"lags where communication is not known. {_RULES}",
          (Query(_OWN, RANK),), "percentunit", empty=_NO_RULES + _NO_STEPS),
    Chart("Less wait than the mean", "Communication of each rank less the mean of its run. Far below 0: this rank lags.",
          (Query(_beyond_the_mean(_COMMUNICATION), RANK, smallest=True),), "percentunit", empty=NO_WINDOWS, minimum=-1.0),
    Chart("More input and host time than the mean", "Of each rank, less the mean of its run. Far above 0: it lags.",
          (Query(_beyond_the_mean(_OWN), RANK),), "percentunit", empty=_NO_RULES + _NO_STEPS, minimum=-1.0),
    Chart("Step times of all ranks", "How many steps a second took how long, over all ranks: two bands are ranks, or "
          f"steps, of two kinds. {_RULES}",
          (Query(_STEP_TIMES, BUCKETS),), "s", "heatmap", empty=_NO_RULES + _NO_STEPS),
    Chart("Step time by rank", "Mean over all steps. Collectives make all ranks equally slow, so a difference means that "
          "they do not wait for each other.",
          (Query(_mean("jaxobs_step_seconds"), RANK + " {{loop}}"),), "s", empty=NO_LOOP),
    Chart("Host's turn by rank", "Mean of what the host takes for a turn of the loop.",
          (Query(_mean("jaxobs_step_host_seconds"), RANK + " {{loop}}"),), "s", empty=NO_LOOP),
    Chart("Since the last step", "By rank; the rank that stopped first stands highest.",
          (Query(f"time() - {by('max', _BY_RANK, _LAST_STEP)}", RANK + " {{loop}}"),), "s", empty=NO_LOOP),
    Chart("Stalled time by rank", "Share of time in steps far beyond their usual time, for no reason that jaxobs sees. "
          f"{_RULES}",
          (Query(_STALLED, RANK),), "percentunit", steps=((0.5, "red"),)),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-fleet", "JAX / Fleet", "All ranks of a run: who lags, and who is silent.",
    (
        Row("Where is each rank?", (RANKS,)),
        Row("Does a rank hang, or is it silent or gone?", (_HANGS, *_PRESENCE)),
        Row("Did it become slower?", (_SLOWDOWNS,)),
        Row("Which rank lags?", _LAG),
    ),
)  # fmt: skip
