"""Fleet: all ranks of a run beside each other, the one that lags, and those that are silent."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Override, Page, Query, Row, columns, sorted_by
from grafana.source.expressions import IN_LOOP, RANK, RUN_INFO_NOW, RUN_INFO_SEEN, by, rate, selected
from grafana.source.look import ANY_IS_BAD
from grafana.source.pages.roofline_queries import NO_WINDOWS

_NO_LOOP: Final = "No steps are known: mark them with `obs.steps(loader)`."
_OF_RANK: Final = "run, rank"
_BY_RANK: Final = f"{_OF_RANK}, loop"


def _rate(component: str) -> str:
    return rate("jaxobs_step_component_seconds_total", IN_LOOP, f'component=~"{component}"')


def _own_seconds(labels: str = _BY_RANK) -> str:
    """Share of the wall time of each rank that it holds the device up itself."""
    return by("sum", labels, _rate("input|host"))


def _communication(labels: str = _BY_RANK) -> str:
    """Share of the wall time of each rank in collectives, as in the rule of that name.

    It is known from profiler windows alone: a rank without one would stand at 0, as if it waited for nobody.
    """
    with_windows = f"{selected('jaxobs_profiled_seconds_total', IN_LOOP)} > 0"
    return by("sum", labels, f"({_rate('communication')} and on (job, instance, loop) {with_windows})")


def _beyond_the_mean(seconds: str) -> str:
    return f"{seconds} - on (run, loop) group_left avg by (run, loop) ({seconds})"


_AGE: Final = f"time() - {by('max', _BY_RANK, selected('jaxobs_last_step_timestamp_seconds', IN_LOOP))}"
_HEARD: Final = selected("jaxobs_job_last_heard_timestamp_seconds")
_SILENCE: Final = by("max", _OF_RANK, f"(timestamp({_HEARD}) - {_HEARD})")
"""At the time of the sample: what a job pushed last stays for five minutes after its end, and grows no older."""

_SEEN: Final = f"count by (run) (max by (run, rank) ({RUN_INFO_SEEN}))"
"""By rank: a rank that came back elsewhere or in another attempt is one."""

_PRESENT: Final = f"count by (run) (max by (run, rank) ({RUN_INFO_NOW}))"

RANKS: Final = Chart(
    "Ranks", "Each rank now: where it is, how long since its last step and since its agent heard of it.",
    (
        Query(f"max by (run, attempt, rank, host, instance) ({RUN_INFO_NOW})", name="where", table=True),
        Query(by("max", _OF_RANK, rate("jaxobs_steps_total", IN_LOOP)), name="rate", table=True),
        Query(f"time() - {by('max', _OF_RANK, selected('jaxobs_last_step_timestamp_seconds', IN_LOOP))}", name="age",
              table=True),
        Query(_communication(_OF_RANK), name="communication", table=True, optional=NO_WINDOWS),
        Query(_own_seconds(_OF_RANK), name="own", table=True),
        Query(_SILENCE, name="silence", table=True),
    ),
    "short", "table", 24, 9,
    transformations=(
        *columns({
            "rate": "steps/s", "age": "since the last step", "communication": "communication", "own": "input and host",
            "silence": "since heard of",
        }, hidden="where"),
        sorted_by("rank"),
    ),
    overrides=(
        Override("since the last step", {"unit": "s"}), Override("since heard of", {"unit": "s"}),
        Override("communication", {"unit": "percentunit"}), Override("input and host", {"unit": "percentunit"}),
    ),
)  # fmt: skip

_PRESENCE: Final = (
    Chart("Ranks that report", "Processes of each run that Prometheus reaches.",
          (Query(_PRESENT, "{{run}}"),), "none", width=8),
    Chart("Ranks that are gone", "Seen in this time range and no longer; also right after a run has ended.",
          (Query(f"{_SEEN} - on (run) ({_PRESENT} or 0 * {_SEEN})", "{{run}}"),),
          "none", width=8, steps=ANY_IS_BAD),
    Chart("Silence", "Since the agent last heard of each training process: above some seconds its interpreter hangs.",
          (Query(_SILENCE, RANK),), "s", width=8, steps=((30.0, "red"),)),
)  # fmt: skip

_LAG: Final = (
    Chart("Communication by rank", "Share of wall time in collectives. Ranks wait in them for the slowest: the "
          "one with the least wait is the one that the others wait for.",
          (Query(_communication(), RANK),), "percentunit", empty=NO_WINDOWS),
    Chart("Input and host by rank", "Share of wall time that the rank itself holds the device up; says who lags where "
          "communication is not known.",
          (Query(_own_seconds(), RANK),), "percentunit", empty=_NO_LOOP),
    Chart("Less wait than the mean", "Communication of each rank less the mean of its run. Far below 0: this rank lags.",
          (Query(_beyond_the_mean(_communication()), RANK),), "percentunit", empty=NO_WINDOWS, minimum=-1.0),
    Chart("More input and host time than the mean", "Of each rank, less the mean of its run. Far above 0: it lags.",
          (Query(_beyond_the_mean(_own_seconds()), RANK),), "percentunit", empty=_NO_LOOP, minimum=-1.0),
    Chart("Step time by rank", "Mean over all steps. Collectives make all ranks equally slow, so a difference means that "
          "they do not wait for each other.",
          (Query(f"{by('sum', _BY_RANK, rate('jaxobs_step_seconds_sum', IN_LOOP))} / "
                 f"{by('sum', _BY_RANK, rate('jaxobs_step_seconds_count', IN_LOOP))}", RANK + " {{loop}}"),),
          "s", empty=_NO_LOOP),
    Chart("Host's turn by rank", "Mean of what the host takes for a turn of the loop.",
          (Query(f"{by('sum', _BY_RANK, rate('jaxobs_step_host_seconds_sum', IN_LOOP))} / "
                 f"{by('sum', _BY_RANK, rate('jaxobs_step_host_seconds_count', IN_LOOP))}", RANK + " {{loop}}"),),
          "s", empty=_NO_LOOP),
    Chart("Since the last step", "By rank; the rank that stopped first stands highest.",
          (Query(_AGE, RANK + " {{loop}}"),), "s", empty=_NO_LOOP),
    Chart("Stalled time by rank", "Share of time in steps far beyond their usual time, for no reason that jaxobs sees.",
          (Query(by("sum", "run, rank", rate("jaxobs_run_seconds_total", 'category="stalled"')), RANK),),
          "percentunit", steps=((0.5, "red"),)),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-fleet", "JAX / Fleet", "All ranks of a run: who lags, and who is silent.",
    (
        Row("Where is each rank?", (RANKS,)),
        Row("Is a rank silent or gone?", _PRESENCE),
        Row("Which rank lags?", _LAG),
    ),
)  # fmt: skip
