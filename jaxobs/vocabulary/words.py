"""The closed sets of words: what time can be charged to, the phases of a compilation and its causes."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

Use = Literal["busy", "idle", "unknown"]
"""What the device does meanwhile: work, nothing, or it is not known."""

State = Literal["running", "ended", "crashed", "interrupted", "killed"]
"""How a job is or how it ended. `crashed`: by an exception; `interrupted`: by Ctrl-C; `killed`: its end was not
reported: it was killed, left by `os._exit`, or had no time to report it on a machine that was too busy."""


class Component(Enum):
    """What a loop's wall time can be charged to; the largest is the bottleneck, so each word is a label too.

    They are in the order in which they are stacked in a chart: what the device does, what is not known, then what it
    waits for. The colours are Okabe and Ito's (jfly.uni-koeln.de/color), made for readers who see few colours, with two
    greys for what is not known; a test holds all of them apart for such readers. Page, terminal, dashboards and the
    table in docs/questions/slow.md are made from these, so that a label has one colour and one meaning everywhere.

    Attributes:
        word: The label, as events, documents and metrics carry it.
        use: What the device does meanwhile.
        light: Its colour on a white ground.
        dark: Its colour on a dark ground.
        happens: What happens meanwhile.
        remedy: What to look at or to do. Links are relative to docs/questions/.
    """

    COMPUTE = (
        "compute", "busy", "#0072b2", "#3d94d1", "the device calculates",
        "the efficiency of its operations: near the roof only less work helps, or a faster element type",
    )  # fmt: skip
    MEMORY = (
        "memory", "busy", "#e69f00", "#e09a1e", "operations wait for device memory",
        "operations below the slanted roof: fuse them, use smaller types, larger batches",
    )  # fmt: skip
    COMMUNICATION = (
        "communication", "busy", "#cc79a7", "#d78fb5", "collectives run and nothing else does",
        "[which rank lags](rank.md); overlap them with computation",
    )  # fmt: skip
    TRANSFER = (
        "transfer", "busy", "#009e73", "#1fae86", "copies between host and device", "keep data on the device",
    )  # fmt: skip
    LATENCY = (
        "latency", "busy", "#5f3d7c", "#8f6ab0", "operations are so short that launching them takes longest",
        "larger batches, `jax.lax.scan` over steps",
    )  # fmt: skip
    UNMODELLED = (
        "unmodelled", "busy", "#6e7684", "#79818f", "work whose cost is not known, such as custom calls",
        "the reason beside the executable; [a rule](../reference/plugins.md#costs-of-custom-calls) gives its cost",
    )  # fmt: skip
    UNKNOWN = (
        "unknown", "unknown", "#c9ced8", "#4a5261", "what the time went into is not known",
        "the reasons in the snapshot: a peak is missing, a function is not watched",
    )  # fmt: skip
    INPUT = (
        "input", "idle", "#f0d43a", "#e2d25c", "the loop waits for its iterator",
        "the host lines: they name the line that loads. Load the next batches on a background thread, use more workers",
    )  # fmt: skip
    HOST = (
        "host", "idle", "#8a5a3c", "#a9765a", "the device is idle while Python runs",
        "the host lines. Jit more of the step, read losses less often",
    )  # fmt: skip
    CHECKPOINT = (
        "checkpoint", "idle", "#56b4e9", "#7cc6f0", "the loop waits for a checkpoint",
        "save asynchronously, or less often",
    )  # fmt: skip
    COMPILE = (
        "compile", "unknown", "#d55e00", "#e5762e", "functions are compiled, perhaps again and again",
        "[why it was compiled again](recompilations.md)",
    )  # fmt: skip

    def __init__(self, word: str, use: Use, light: str, dark: str, happens: str, remedy: str) -> None:
        self.word, self.use = word, use
        self.light, self.dark = light, dark
        self.happens, self.remedy = happens, remedy


COMPONENTS: Final = tuple(each.word for each in Component)
"""The words alone, as events and documents carry them."""

BUSY: Final = tuple(each.word for each in Component if each.use == "busy")
"""Components that the device's busy time is charged to."""

IDLE: Final = tuple(each.word for each in Component if each.use == "idle")
"""Components that only idle time of the device is charged to."""

DEVICE: Final = tuple(word for word in BUSY if word != "unmodelled")
"""Components that the device's busy time is charged to, where its work is known."""

REST: Final = ("host", "unknown")
"""What has the time that nothing else explains: less device time than was thought is more of it."""

CHECKPOINT: Final = "checkpoint"
"""The phase of saving the model, which is a component of a step and a category of the run as well."""

CATEGORIES: Final = ("initialisation", "compile", "productive", "input", "checkpoint", "stalled", "other")
"""What the whole run's time is charged to."""


PHASES: Final = ("trace", "lower", "backend", "cache_read")
"""The phases of a compile, which follow each other; together they are the compile."""

CAUSES: Final = (
    "redefined", "pytree", "static_argument", "context", "dtype", "shape", "weak_type", "sharding", "other",
)  # fmt: skip
"""Every cause. Where several things changed at once, the first of these is named: each of the earlier ones makes JAX
compile again whatever the later ones are, and may be what changed them (64-bit mode changes element types)."""

INSIDE: Final = "without the loops and phases inside its steps, which take most of their time"
ON_ONE_THREAD: Final = "on one thread, while others call the same function"
"""What to know of such a loop's rates."""
