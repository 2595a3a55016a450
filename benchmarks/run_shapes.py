"""Eight shapes of a run, each twice: what is printed at its end, what is left, and what is said of it afterwards.

    python -m benchmarks.run_shapes [--only NAME,…]

Prints the table of docs/results/run_shapes.md, to be read by a person: nothing is judged.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.beside import job_environment
from benchmarks.truths import chosen, markdown_table, options_of
from tests.waiting import wait_for

ID = re.compile(r"\d{8}T\d{6}Z-\w+")
COLUMNS = (
    "shape", "prints at its end", "leaves in its folder", "`jaxobs runs`", "`jaxobs show` begins", "`jaxobs compare`",
)  # fmt: skip
BEGIN = """
import time, jax, jax.numpy as jnp
@jax.jit
def step(x): return jnp.tanh(x @ x)
@jax.jit
def evaluate(x): return jnp.sum(x * x)
x = jnp.full((384, 384), 0.01)
def train(turns, seconds=6.0):
    global x; begin = time.monotonic()
    for turn in turns:
        x = step(x).block_until_ready()
        if turn % 200 == 0: print("training", flush=True); yield turn
        if time.monotonic() - begin > seconds: break
forever = iter(range(10**9))
"""


class Shape(NamedTuple):
    """A script after BEGIN, whether it runs under `jaxobs run`, how many processes it is, and the signal that ends it."""

    script: str = "for _ in train(forever): pass"
    launched: bool = True
    processes: int = 1
    ended_by: int | None = None


ONE_CALL = "jax.jit(lambda x: jax.lax.fori_loop(0, 4000, lambda _, x: step(x), x))(x).block_until_ready()"
EVALUATES = "for _ in train(forever):\n    for _ in range(20): float(evaluate(x))"
MARKED = "import jaxobs; obs = jaxobs.instrument(); step = obs.watch(step)\nfor _ in train(obs.steps(forever)): pass"
LONG = "for _ in train(forever, 600): pass"
SHAPES = {
    "marked loop": Shape(MARKED, launched=False),
    "`jaxobs run`": Shape(),
    "evaluation inside": Shape(EVALUATES),
    "one long call": Shape(ONE_CALL),
    "4 processes of one host": Shape(processes=4),
    "an exception": Shape("for _ in train(forever): pass\nraise ValueError('no more data')"),
    "Ctrl-C": Shape(LONG, ended_by=signal.SIGINT),
    "kill -9": Shape(LONG, ended_by=signal.SIGKILL),
}


def start(folder: Path, *command: str, **own: str) -> subprocess.Popen[str]:
    """Start a command of this Python in the folder, with the state directory that is there."""
    environment = job_environment(XDG_STATE_HOME=str(folder / "state"), TMPDIR=str(folder), **own)
    words, pipe = [sys.executable, *command], subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, env=environment, text=True, stdout=pipe, stderr=pipe)


def files(folder: Path, name: str) -> int:
    """How many runs have a file of this name there."""
    return len(list(folder.rglob(name)))


def run(shape: Shape, folder: Path) -> str:
    """Run its processes in the folder to their end, and their agents to theirs; the first lines that jaxobs printed."""
    before = files(folder, "record.json")
    command = ("-m", "jaxobs", "run", "--", "train.py") if shape.launched else ("train.py",)
    count, ranks = str(shape.processes), map(str, range(shape.processes))
    several = [{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count} for rank in ranks]
    jobs = [start(folder, *command, **own) for own in (several if shape.processes > 1 else [{}])]
    if shape.ended_by is not None and jobs[0].stdout is not None:
        jobs[0].stdout.readline()
        wait_for(lambda: files(folder, "record.json") > before, "the record of the run")
        time.sleep(4.0)
        jobs[0].send_signal(shape.ended_by)
    errors = [job.communicate(timeout=240)[1] for job in jobs]
    last = ["page.html", "killed.txt"][: 1 + (shape.ended_by == signal.SIGKILL)]
    wait_for(lambda: all(files(folder, each) > before for each in last), "what an agent leaves")
    own = [re.search(r"(?ms)^jaxobs: .*?(?=\n *the run:|\n\n|\Z)", text) for text in errors]
    return "; ".join(found[0] for found in own if found) or "nothing"


def row(shape: Shape) -> list[str]:
    """The cells of a shape in the table."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train.py").write_text(BEGIN + shape.script)
        cells = [[run(shape, folder) for _ in range(2)][1]]
        last = max(folder.rglob("record.json"), key=lambda file: file.stat().st_mtime).parent
        cells.append(", ".join(sorted(file.name for file in last.iterdir())))
        told = [start(folder, "-m", "jaxobs", word).communicate() for word in ("runs", "show", "compare")]
    runs, show, compare = (out or error for out, error in told)
    listed = re.search(r"(?m)^last\b.*? ([\d.]+ m?s +\w+)", runs)
    cells += [listed[1] if listed else runs, show.partition("\n")[0]]
    cells.append([line for line in compare.split("\n") if line][1].partition(":")[0])
    return [ID.sub("START-ID", cell.replace(place, "…")) for cell in cells]


def main() -> None:
    """Run the shapes, print the table."""
    only = options_of(__doc__).parse_args().only
    rows = ((name, *row(SHAPES[name])) for name in chosen(only, ((name, name) for name in SHAPES)))
    print(markdown_table(COLUMNS, rows))


if __name__ == "__main__":
    main()
