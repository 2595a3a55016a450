"""Overview: how fast the runs are, where their time goes, and what to do about it."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import (
    LABELS_ALONE,
    Chart,
    Override,
    Page,
    Query,
    Row,
    Transformation,
    columns,
    sorted_by,
)
from grafana.source.expressions import (
    IN_LOOP,
    RUN,
    RUN_INFO,
    RUN_INFO_NOW,
    RUN_INFO_SEEN,
    by,
    grown,
    mean_of_ranks,
    of_all_runs,
    quantile,
    rate,
    selected,
)
from grafana.source.links import CHOOSE_THE_RUN, TRACES_OF_STEPS
from grafana.source.look import CATEGORY_COLOURS, COMPONENT_COLOURS, GOOD_WHEN_HIGH, GOODPUT, NO_LOOP, NO_PEAK
from jaxobs.derive.advice import CONDITIONS

_NO_TOKENS: Final = "The loop was not told its tokens: `obs.steps(loader, tokens=…)`."


def _colours(colours: dict[str, str]) -> list[Override]:
    return [
        Override(name, {"color": {"mode": "fixed", "fixedColor": colour}}) for name, colour in colours.items()
    ]


_RUN: Final = "run, run_id, attempt, user, experiment"
_RANKS_OF: Final = f"max by ({_RUN}, rank) "
_SEEN: Final = f"timestamp({of_all_runs(RUN_INFO)})[$__range:]"

RUNS: Final = Chart(
    "Runs", "All runs seen in this time range, chosen or not, and how many ranks of each report now. A click on an id "
    "chooses the run.",
    (
        Query(f"count by ({_RUN}) ({_RANKS_OF}({of_all_runs(RUN_INFO_SEEN)}))", name="seen", table=True),
        Query(f"count by ({_RUN}) ({_RANKS_OF}({of_all_runs(RUN_INFO_NOW)}))", name="now", table=True),
        Query(f"1000 * min by ({_RUN}) (min_over_time({_SEEN}))", name="first", table=True),
        Query(f"1000 * max by ({_RUN}) (max_over_time({_SEEN}))", name="last", table=True),
    ),
    kind="table", unit="none", width=24, height=6,
    transformations=columns({
        "seen": "ranks seen", "now": "ranks now", "first": "first seen", "last": "last seen",
    }),
    overrides=(
        Override("first seen", {"unit": "dateTimeAsLocal"}), Override("last seen", {"unit": "dateTimeFromNow"}),
        Override("run_id", {"links": [CHOOSE_THE_RUN]}),
    ),
)  # fmt: skip

_NUMBERS: Final = (
    Chart("Steps a second", "Each rank takes the same steps, so the fastest rank's count is the run's.",
          (Query(by("max", "run, loop", rate("jaxobs_steps_total", IN_LOOP)), RUN + " {{loop}}"),),
          kind="stat", width=4, height=4, empty=NO_LOOP),
    Chart("Tokens a second", "Over all ranks: each counts its own share.",
          (Query(by("sum", "run, loop", rate("jaxobs_tokens_total", IN_LOOP)), RUN + " {{loop}}"),),
          kind="stat", width=4, height=4, empty=_NO_TOKENS),
    Chart("MFU", "Model FLOPs utilization in the last window: matrix FLOPs over wall time and peak, mean of the ranks.",
          (Query(by("avg", "run, loop", selected("jaxobs_mfu_ratio", IN_LOOP)), RUN + " {{loop}}"),),
          "percentunit", "stat", 4, 4, empty=NO_PEAK, steps=GOOD_WHEN_HIGH),
    Chart("HFU", "As MFU, with what rematerialisation computes again.",
          (Query(by("avg", "run, loop", selected("jaxobs_hfu_ratio", IN_LOOP)), RUN + " {{loop}}"),),
          "percentunit", "stat", 4, 4, empty=NO_PEAK, steps=GOOD_WHEN_HIGH),
    Chart("Goodput", "Productive share of the processes' age since they began, mean of the ranks.",
          (Query(by("avg", "run", selected("jaxobs_goodput_ratio")), RUN),),
          "percentunit", "stat", 4, 4, steps=GOODPUT),
    Chart("Failed steps", "Steps that raised, over all ranks, in this time range.",
          (Query(f"round({by('sum', 'run, loop', grown('jaxobs_steps_failed_total', IN_LOOP))})", RUN + " {{loop}}"),),
          "short", "stat", 4, 4, empty=NO_LOOP, steps=((1.0, "red"),)),
)  # fmt: skip

_SPEED: Final = (
    Chart("Step rate", "Steps a second of each loop.",
          (Query(by("max", "run, loop", rate("jaxobs_steps_total", IN_LOOP)), RUN + " {{loop}}"),), empty=NO_LOOP),
    Chart("Step time", "Median and slowest hundredth of the steps of all ranks. The dots are single steps: a click opens "
          "their trace.",
          (Query(quantile(0.5, "jaxobs_step_seconds", "run, loop", IN_LOOP), RUN + " {{loop}} median", exemplars=True),
           Query(quantile(0.99, "jaxobs_step_seconds", "run, loop", IN_LOOP), RUN + " {{loop}} 99 %", "B")),
          "s", empty=NO_LOOP, links=(TRACES_OF_STEPS,)),
    Chart("Tokens and examples a second", "Over all ranks.",
          (Query(by("sum", "run, loop", rate("jaxobs_tokens_total", IN_LOOP)), RUN + " {{loop}} tokens"),
           Query(by("sum", "run, loop", rate("jaxobs_examples_total", IN_LOOP)), RUN + " {{loop}} examples", "B")),
          empty=_NO_TOKENS),
    Chart("MFU and HFU", "Model and hardware FLOPs utilization, mean of the ranks.",
          (Query(by("avg", "run, loop", selected("jaxobs_mfu_ratio", IN_LOOP)), RUN + " {{loop}} MFU"),
           Query(by("avg", "run, loop", selected("jaxobs_hfu_ratio", IN_LOOP)), RUN + " {{loop}} HFU", "B")),
          "percentunit", empty=NO_PEAK),
)  # fmt: skip

_SHARE: Final = by("avg", "run, loop, bottleneck", selected("jaxobs_bottleneck_ratio", IN_LOOP))
BOTTLENECK: Final = Chart(
    "Bottleneck", "What took the largest share of the wall time of each loop, over time: the mean of the ranks' shares.",
    (Query(f'label_join(topk by (run, run_id, loop) (1, {_SHARE} > 0), "line", " ", "run", "run_id", "loop")',
           rows_over_time=True),),
    kind="state-timeline", width=24, height=5, empty=NO_LOOP, words=COMPONENT_COLOURS,
    transformations=(
        sorted_by("Time"),
        Transformation("groupingToMatrix", {
            "columnField": "line", "rowField": "Time", "valueField": "bottleneck", "emptyValue": "null",
        }),
    ),
)  # fmt: skip

_COMPONENTS: Final = by("sum", "run, loop, component", rate("jaxobs_step_component_seconds_total", IN_LOOP))
_TIME: Final = (
    BOTTLENECK,
    Chart("Where the second went", "Share of the wall time of the chosen loops, known at the end of each step, by what "
          "it was charged to, over all ranks. The parts of one run add up to 100 %.",
          (Query(f"{_COMPONENTS} / on (run, run_id) group_left () (sum by (run, run_id) ({_COMPONENTS}) > 0)",
                 "{{component}}"),),
          "percentunit", stacked=True, empty=NO_LOOP, overrides=_colours(COMPONENT_COLOURS)),
    Chart("Where the step went", "The same by step: the parts of one loop add up to its mean step time.",
          (Query(f"{_COMPONENTS} / on (run, run_id, loop) group_left () "
                 f"({by('sum', 'run, loop', rate('jaxobs_steps_total', IN_LOOP))} > 0)", "{{component}}"),),
          "s", stacked=True, empty=NO_LOOP, overrides=_colours(COMPONENT_COLOURS)),
    Chart("Where the process's time went", "Time of the whole process, loops or not; the parts add up to 100 %.",
          (Query(by("avg", "run, category", rate("jaxobs_run_seconds_total")), "{{category}}"),),
          "percentunit", stacked=True, overrides=_colours(CATEGORY_COLOURS)),
    Chart("Phases", "Share of the process's time in each phase, such as an evaluation, mean of the ranks. Known at its "
          "end: one that took longer than the interval stands above 100 %.",
          (Query(mean_of_ranks("run, phase", rate("jaxobs_phase_seconds_total")), "{{phase}}"),),
          "percentunit", empty="No phase has ended: with obs.phase(\"evaluation\")."),
    Chart("How sure the bottleneck is", "Confidence of the label, mean of the ranks; low where the runner-up is close.",
          (Query(by("avg", "run, loop", selected("jaxobs_bottleneck_confidence_ratio", IN_LOOP)), RUN + " {{loop}}"),),
          "percentunit", empty=NO_LOOP),
)  # fmt: skip

_NO_LINES: Final = "No line has taken a share of the main thread's time, or JAXOBS_HOST_LINES is false."
HOST_LINES: Final = (
    Chart("What the main thread does itself", "Share of its time by line, and what it waits in there, from samples of "
          "its stack, mean of the ranks; without what it waits for the device, dispatches and compiles.",
          (Query(mean_of_ranks("run, loop, line, waits_in", rate("jaxobs_host_line_sampled_seconds_total",
                               'activity!~"device|dispatch|compile"')), "{{line}} {{waits_in}}"),),
          "percentunit", stacked=True, empty=_NO_LINES),
)  # fmt: skip
"""Where the host is while the device waits."""

_IN_WORDS: Final = {
    condition.__name__: {"index": at, "text": str(condition.__doc__).partition("\n")[0]}
    for at, condition in enumerate(CONDITIONS)
}
"""What each piece of advice is about, as docs/reference/advice.md begins on it."""

_ADVICE_LABELS: Final = "run, condition, loop, function"
ADVICE: Final = Chart(
    "Advice",
    "What jaxobs advises now, and what it would give back; docs/reference/advice.md says what each condition means.",
    (
        Query(by("max", _ADVICE_LABELS, selected("jaxobs_advice_info")), name="given", table=True),
        Query(by("max", _ADVICE_LABELS, selected("jaxobs_advice_saves_ratio")), name="time", table=True),
        Query(by("max", _ADVICE_LABELS, selected("jaxobs_advice_saves_bytes")), name="memory", table=True),
    ),
    kind="table", unit="percentunit", empty="There is no advice now.", absence="until it happens",
    transformations=columns({"time": "time back", "memory": "memory back"}, hidden=("given",)),
    overrides=(
        Override("memory back", {"unit": "bytes"}),
        Override("condition", {"mappings": [{"type": "value", "options": _IN_WORDS}], "custom.width": 620}),
    ),
)  # fmt: skip

ALERTS: Final = Chart(
    "Alerts", "Alerts of deploy/prometheus/alerts.yml that fire now for the chosen runs.",
    (Query('max by (alertname, severity, run, run_id, rank, instance, loop, function) '
           '(ALERTS{alertstate="firing", alertname=~"Jax.+", run_id=~"$run|"})', table=True),),
    kind="table", unit="none", empty="No alert fires now.", absence="until it happens",
    transformations=(LABELS_ALONE,),
)  # fmt: skip

RECORDED: Final = Chart(
    "Recorded values", "What the script recorded with `obs.record(loss=…)`, mean of the ranks.",
    (Query(by("avg", "run, loop, name", selected("jaxobs_recorded", IN_LOOP)), RUN + " {{loop}} {{name}}"),),
    width=24, empty="The script records nothing: `obs.record(loss=loss)`.",
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-overview", "JAX / Overview",
    "How fast the chosen runs are, where their time goes, and what to do about it.",
    (
        Row("Which runs are there, and how do they do?", (RUNS, *_NUMBERS)),
        Row("How fast are they?", _SPEED),
        Row("Where does the time go?", (*_TIME, *HOST_LINES)),
        Row("What should I do, and is it learning?", (ADVICE, ALERTS, RECORDED)),
    ),
)  # fmt: skip
