"""The ranks of a run side by side: which one lags, for how long and through what, and which one the others wait for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from jaxobs.model.snapshot import Document
from jaxobs.report.summary import render
from jaxobs.report.tables import Column, Row, figure, known_columns, plain_table, text, words
from jaxobs.report.text_table import to_text
from jaxobs.report.view import View
from jaxobs.vocabulary import activities
from jaxobs.vocabulary.text import printable
from jaxobs.vocabulary.units import count, duration, percent, rough_percent

LAGS: Final = 0.05
"""Least share of the others' time that a lagging rank costs them, the threshold of JaxRankLags in deploy/prometheus. One
that takes a tenth longer costs them a tenth of their time or, where it works beside the collective, less."""

DEVIATIONS: Final = 3.0
"""Standard deviations of what samples tell by which one of two ranks must lag: by less, one look of thirty tells two
apart that are alike. Where a sample is dear half a minute has some eighty: by these, two ranks that waited for their
input for three quarters of it, and were alike, seemed to differ by more than LAGS in one look of eight (measured)."""

LAGGING: Final = "◀ lags"
HANGING: Final = "◀ hangs"
GONE: Final = "✗"
"""Marks a rank of which nothing new is known."""

_OF_HANG: Final = ("loop", "steps", "steps_in_flight", "seconds", "activity", "line", "line_reason")


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of one rank now. `problem` says in one line why nothing newer is known."""

    address: str
    document: Document
    problem: str | None = None


def rank_rows(ranks: Sequence[Observed], loop: str | None = None) -> list[dict[str, Any]]:
    """A row for each rank, in their order, with the figures of `loop`, or of its main loop where it has none such."""
    return marked([row_of(rank, loop) for rank in ranks])


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark, of each run, the rank that lags in a loop and the one for which the others wait."""
    for run in {row["run_id"] for row in rows}:  # others do not wait for this one
        alike = [row for row in rows if row["run_id"] == run]
        fresh = [row for row in alike if not row["problem"]]
        if len({row["rank"] for row in fresh}) < len(fresh):
            continue  # two jobs that were started by hand have one id: who waits for whom is not known
        get_on = not any(row["hang"] for row in fresh)  # else who lags is of before
        for loop in {row["loop"] for row in fresh}:
            _mark_slowest([row for row in fresh if row["loop"] == loop], is_now=get_on)
        for row, why in waited_for(alike):
            row["hangs"], row["hangs_as"] = True, why
    return rows


def _mark_slowest(rows: Sequence[dict[str, Any]], *, is_now: bool) -> None:
    """Note what each of these ranks costs the others in this loop, and which of them lags.

    It must do so by shares of its time and by seconds of a step: steps of a rank that has waited for long, as for one
    that evaluates, take longer for a while, and those of ranks that do not wait for each other may always.
    """
    for lag, shares, step in (("lag", "shares", "step_seconds"), ("lag_in_all", "shares_in_all", "step_all")):
        known = [row for row in rows if row[shares] and row[step]]
        usual = sum(row[step] for row in known) / max(1, len(known))
        by_step = [row[step] / usual for row in known]
        costs = [_costs(known, shares, scales) for scales in ([1.0] * len(known), by_step)]
        for row, *found in zip(known, *costs, strict=True):
            row[lag] = min(found)
    slowest = max(rows, key=lambda row: row["lag"])
    others = [row for row in rows if row["shares"] and row is not slowest]
    noise = math.hypot(slowest["unsure"], *(row["unsure"] / len(others) for row in others))
    # Of n ranks one is by chance so far off n / 2 times as often as of two (Bonferroni, by exp(-z² / 2) for the tail).
    noise *= math.sqrt(DEVIATIONS**2 + 2 * math.log((len(others) + 1) / 2))
    certain = slowest["known_input"] - sum(row["known_input"] for row in others) / max(1, len(others))
    if is_now and slowest["lag"] > LAGS and max(certain - LAGS, slowest["lag"] - noise) > 0:
        slowest["lags"], slowest["through"] = True, _through(slowest, [row["shares"] for row in others])


def _through(slowest: Row, others: Sequence[Mapping[str, float]]) -> str | None:
    """What a rank spends more on than the mean of the others, where that is at least half of what it costs them.

    Waiting for them costs them nothing.
    """
    more = {
        name: share - sum(shares.get(name, 0.0) for shares in others) / len(others)
        for name, share in slowest["shares"].items()
        if name not in {"communication", "unknown"}
    }
    largest = max(more, key=more.__getitem__, default=None)
    return largest if largest and more[largest] >= slowest["lag"] / 2 else None


def waited_for(ranks: Sequence[dict[str, Any]]) -> Sequence[tuple[dict[str, Any], str]]:
    """Ranks of a run that stand still and that others wait for, and how they differ from these.

    They do not wait for the device themselves, nor perhaps for a rank that does something else, is gone or does not
    answer, or may be on another host as none is seen to wait for its device. Where all wait alike, and all ranks of the
    run are known to, they have not ended a step that another's device is done with, or else one is at another line than
    all others after as many steps. A rank of which that is not known, as one in a checkpoint or on another host, may be
    what all wait for.
    """
    still = [row for row in ranks if row["hang"] and not row["problem"]]
    of_run = max(len(ranks), *(row["ranks"] or 1 for row in ranks))
    lines = [row["hang"]["line"] for row in still]
    own = [row for row in still if not waits(row, perhaps=True)]
    is_awaited = None in lines or any(row["problem"] or (row["doing"] and not row["hang"]) for row in ranks)
    is_at_device = any(row["hang"]["activity"] == activities.DEVICE for row in still)
    if not (own or is_awaited) and (is_at_device or len(ranks) == of_run):
        own = [row for row in still if not waits(row)]
    why = {True: "the stack of its thread did not come", False: "it does not wait for its device"}
    apart = None if None in lines else the_other(lines)
    alone = [(row, why[row["hang"]["line"] is None]) for row in own]
    if own and (len(own) < len(still) or len(own) == 1 or (apart is None and len({*lines}) > 1)):
        return alone
    if len(still) < of_run:
        return []
    if len(ranks) == 1:
        return [(still[0], "it is the only rank")]
    if behind := _behind(still):
        return [(row, f"it has ended the fewest steps, {count(row['hang']['steps'])}") for row in behind]
    if apart is None or not (own or _are_as_far(still)):
        return alone
    return [(still[apart], "its thread is at another line than all others")]


def waits(row: Row, *, perhaps: bool = False) -> bool:
    """Whether its thread stands still and is not known to do anything of its own; `perhaps`: or waits for something."""
    known = {activities.DEVICE, activities.UNKNOWN, activities.WAITING if perhaps else activities.DEVICE}
    return bool(row["hang"]) and row["hang"].get("activity") in known


def _behind(still: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ranks that have ended the fewest steps, where the device of another is known to be done with more.

    A host that does not wait is ahead of its device by more steps than another: what it has ended alone says nothing.
    """
    hangs = [row["hang"] for row in still]
    steps = [hang.get("steps") for hang in hangs]
    if None in steps or len({hang.get("loop") for hang in hangs}) > 1:
        return []
    ahead = [hang.get("steps_in_flight") for hang in hangs]
    done = [ended - more for ended, more in zip(steps, ahead, strict=True) if more is not None]
    return [row for row in still if row["hang"]["steps"] == min(steps) < max(done, default=0)]


def _are_as_far(still: Sequence[dict[str, Any]]) -> bool:
    """Whether all have ended as many steps, or are in different loops.

    Else one reads a result, as the first rank to log it, and the hosts of the others run ahead until they wait elsewhere.
    """
    steps = {(row["hang"].get("loop"), row["hang"].get("steps")) for row in still}
    return len(steps) == 1 or len({loop for loop, _ in steps}) > 1


def the_other(values: Sequence[object]) -> int | None:
    """The index of the one value that differs from all others, which are alike; None if there is none such."""
    counts = Counter(values)
    alone = [value for value, times in counts.items() if times == 1]
    return values.index(alone[0]) if len(values) > 2 and len(counts) == 2 and len(alone) == 1 else None


def lags(shares: Sequence[Mapping[str, float]]) -> list[float]:
    """The share of time that each rank of one run costs the others; 0 or less where it costs them nothing.

    In collectives all ranks wait for the slowest, which therefore waits least: of what is not known of its time, it may
    wait for all. Where it is not known to wait longer than the others, it may also be the one that spends more than they
    do on its input and its host (docs/questions/rank.md).
    """
    waits = _beyond_others([share.get("communication") for share in shares])
    own = _beyond_others([share.get("input", 0.0) + share.get("host", 0.0) for share in shares])
    ranks = zip(shares, waits, own, strict=True)
    return [max(-wait - share.get("unknown", 0.0), spent * (wait <= 0)) for share, wait, spent in ranks]


def _unsure(loop: Mapping[str, Any], away: float | None, known: float) -> float:
    """The standard deviation of the share `away`, by samples of half a minute; `known` of it is exact.

    Two samples more, of which one was away, keep a few that agree by chance from being certain (Laplace's rule).
    """
    rest = 1.0 - known
    if rest <= 0 or (away is None and not loop.get("inferred")):
        return 0.0
    lately = min(1.0, (loop.get("recent_seconds") or 0.0) / (loop.get("wall_seconds") or math.inf))
    samples = lately * (loop.get("host_samples") or 0) * rest
    share = min(1.0, max(0.0, ((1.0 if away is None else away) - known) / rest))
    smoothed = (share * samples + 1) / (samples + 2)
    return rest * math.sqrt(smoothed * (1 - smoothed) / max(1.0, samples))


def _away(loop: Mapping[str, Any], shares: Mapping[str, float]) -> float | None:
    """The share of time in which its thread did not wait for the device; None where it was not sampled.

    What it waits for its input is known better, so samples tell of the rest alone.
    """
    seen = Counter[str]()
    for line in loop.get("host_lines") or ():
        seen[line["activity"]] += line["share"]
    rest = seen.total() - seen[activities.INPUT] - seen[activities.MARKED_INPUT]
    return 1.0 - (1.0 - shares.get("input", 0.0)) * seen[activities.DEVICE] / rest if rest > 0 else None


def _costs(rows: Sequence[Row], shares: str, scales: Sequence[float]) -> list[float]:
    """What each rank costs the others by these shares of its time, each rank's multiplied by its scale.

    Shares of communication and host work of half a minute rest on the few runs in profiler windows, and may differ among
    ranks that are alike; what their threads did was sampled some hundred times. Where all wait for the device in each
    step, one that lags waits for less: it is elsewhere, or its device has more to do. Where a host runs ahead the device
    may hide what its thread does, so that is only the most that it costs.
    """
    pairs = list(zip(rows, scales, strict=True))
    spent = [Counter({part: share * by for part, share in row[shares].items()}) for row, by in pairs]
    costs = lags(spent)
    if shares != "shares" or None in [row["away"] for row in rows]:
        return costs
    away = [row["away"] * by for row, by in pairs]
    of_others = ("communication", "input", "host", "unknown")
    busy = [scale - sum(each[part] for part in of_others) for each, scale in zip(spent, scales, strict=True)]
    beyond = zip(*map(_beyond_others, (away, [each["input"] for each in spent], busy)), strict=True)
    told = all("communication" in each for each in spent)  # else the work of one may be collectives
    seen = [max(elsewhere, waited) + worked * told for elsewhere, waited, worked in beyond]
    if all(row["waits_each_step"] for row in rows):
        return seen
    return [min(cost, max(0.0, most)) for cost, most in zip(costs, seen, strict=True)]


def _beyond_others(values: Sequence[float | None]) -> list[float]:
    """By how much each lies above the mean of the others that are known; 0 where it is not, or no other is."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return [0.0] * len(values)
    whole, others = sum(known), len(known) - 1
    return [0.0 if value is None else value - (whole - value) / others for value in values]


def _known(shares: Mapping[str, float], loop: Mapping[str, Any]) -> dict[str, float]:
    """Shares of a loop's time without that of communication, where no profiler window has shown any yet.

    One that met no whole step shows none either: most of the loop's time is not known then.
    """
    seen = shares.get("communication") or (loop.get("profile") and shares.get("unknown", 0.0) < 1 / 2)
    return {name: share for name, share in shares.items() if seen or name != "communication"}


def row_of(rank: Observed, wanted_loop: str | None = None) -> dict[str, Any]:
    """What is known of one rank by itself, as plain data."""
    process = rank.document.get("process") or {}
    view = View(rank.document, wanted_loop=wanted_loop)
    loop = view.chosen
    verdict = loop.get("bottleneck") or {}
    in_all = loop.get("wall_seconds") or 0.0
    spent = loop.get("components") or {} if in_all else {}
    hang = next((hang for hang in rank.document.get("hangs") or () if not hang["over"]), None)
    hang = hang and {key: hang.get(key) for key in _OF_HANG}
    if hang and process.get("counts_begin_seconds") is not None:  # earlier steps were lost with an agent
        hang["steps"] = None
    place = hang and (hang["line"] or hang["line_reason"])
    shares = _known(verdict.get("shares") or {}, loop)
    own = [shares[name] for name in ("input", "host") if name in shares]
    known, away = 0.0 if loop.get("inferred") else shares.get("input", 0.0), _away(loop, shares)
    ago = loop.get("left_seconds")
    left = [] if ago is None else [f"out of its loop for {duration(ago)}"]
    return {
        "rank": process.get("process_index"), "ranks": process.get("process_count"),
        "run": process.get("run") or process.get("service_name"),
        "run_id": process.get("run_id"), "host": process.get("host_name"), "address": rank.address,
        "problem": rank.problem, "doing": "; ".join([*in_progress(process), *left]),
        "loop": view.loop, "steps": loop.get("steps"), "step_seconds": loop.get("step_seconds"),
        "mfu": loop.get("mfu"),
        "label": verdict.get("label"), "shares": shares, "waits": shares.get("communication"),
        "own": sum(own) if own else None, "away": away, "known_input": known,
        "unsure": _unsure(loop, away, known),
        "waits_each_step": bool(loop.get("idle_in_waits")),
        "step_all": in_all / (loop.get("steps") or 1),
        "shares_in_all": _known({name: seconds / in_all for name, seconds in spent.items()}, loop),
        "lag": 0.0, "lag_in_all": 0.0, "lags": False, "through": None,
        "hang": hang, "hangs": False, "hangs_as": None, "still": hang and f"{duration(hang['seconds'])}: {place}",
    }  # fmt: skip


def dearest(rows: list[dict[str, Any]]) -> str | None:
    """The rank that costs the job most, and how, in words; None if none does."""
    row = max(marked(rows), key=lambda row: (row["hangs"], row["lags"] and row["lag"]))
    if row["hangs"]:
        others = sum(each["hangs"] for each in rows) - 1
        also = f"; {count(others, 'other rank')} too" if others else ""
        return f"Rank {row['rank']} hangs ({row['hangs_as']}): no step for {row['still']}{also}"
    through = f", through {row['through']}" if row["through"] else ""
    if row["lags"]:
        cost = f"{rough_percent(row['lag'])} of their time"
        return f"Rank {row['rank']} lags: it costs the others {cost}{through}"
    still = [each for each in rows if each["hang"] and not each["problem"]]
    if not still:
        return None
    wait = all(each["hang"]["activity"] == activities.DEVICE for each in still)
    alone = f"Rank {still[0]['rank']} {'waits for its device' if wait else 'stands still'}"
    many = f"{count(len(still))} ranks {'wait for their devices' if wait else 'stand still'}"
    busy = (f"; rank {row['rank']} is {row['doing']}" for row in rows if row["doing"] and not row["hang"])
    return f"{alone if len(still) == 1 else many}: no step for {still[0]['still']}{''.join(busy)}"


def in_progress(process: Mapping[str, Any]) -> list[str]:
    """What a process is compiling, and the phases that it is in, in words."""
    return [
        f"{word} {name} for {duration(spent)}"
        for word, key in (("compiling", "compiling"), ("in phase", "phases"))
        for name, spent in (process.get(key) or {}).items()
    ]


def columns(rows: Sequence[Row]) -> Iterator[Column]:
    """The columns of the table, of which those that are empty are not shown; run, its id and host where they differ."""
    yield Column("rank", _marked_name, text=True, value=lambda row: row["rank"])
    for title, key in (("run", "run"), ("id", "run_id"), ("host", "host")):
        if len({row[key] for row in rows if row[key]}) > 1:
            yield text(title, key)
    yield figure("steps", "steps", count)
    yield figure("step time", "step_seconds", duration)
    yield figure("MFU", "mfu", percent)
    yield figure("waits", "waits", rough_percent)
    yield figure("own", "own", rough_percent)
    costs = figure("costs", "lag", rough_percent)
    yield costs._replace(show=lambda row: costs.show(row) if row["lags"] else None)
    yield text("through", "through")
    in_all = figure("since the start", "lag_in_all", rough_percent)
    yield in_all._replace(show=lambda row: in_all.show(row) if row["lag_in_all"] > LAGS else None)
    yield text("limited by", "label")
    if any(row["still"] for row in rows):
        yield text("no step for", "still")
        yield text("meanwhile", "doing")
    yield text("", "problem")


def _name(row: Row, before: str = "") -> str:
    """Its number, after these words, else its address: before a backend exists JAX has not told which rank it is."""
    return str(row["address"]) if row["rank"] is None else f"{before}{row['rank']}"


def _marked_name(row: Row) -> str:
    marks = ((GONE, row["problem"]), (HANGING, row["hangs"]), (LAGGING, row["lags"]))
    return " ".join((_name(row), *[mark for mark, holds in marks if holds][:1]))


def render_ranks(ranks: Sequence[Observed], asked: Set[str] = frozenset(), *, width: int, bold: bool) -> str:
    """The table of ranks, and the summary of one that hangs or lags, else of the first of the `asked` addresses."""
    rows = rank_rows(ranks)
    parts = [rank_table(rows, width=width, bold=bold)] if len(ranks) > 1 else []
    answered = [(row, one) for row, one in zip(rows, ranks, strict=True) if one.document and not one.problem]
    if answered:
        first = [(row["hangs"], row["lags"], row["address"] in asked) for row, _ in answered]
        row, chosen = answered[first.index(max(first))]
        why = f", which hangs ({row['hangs_as']})" if row["hangs"] else ", which lags" if row["lags"] else ""
        of = f" of {row['run_id']}" if len({each["run_id"] for each in rows}) > 1 else ""
        parts += ["", printable(f"{_name(row, 'rank ')}{of}{why}")] if parts else []
        parts.append(render(chosen.document, width=width, bold=bold))
    return "\n".join(parts)


def rank_table(rows: Sequence[Row], *, width: int, bold: bool) -> str:
    """The table of ranks alone."""
    known = known_columns([*columns(rows)], rows)
    return to_text([plain_table(known, rows, title="ranks", write=words)], width=width, bold=bold)
