"""Calls of libraries that launch their kernels again and again, and programs of one content, in traces of GPUs."""

import pytest

from jaxobs.cost_model import module_cost
from jaxobs.derive.executables.executable import Executable, absorb
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.proto.messages import HloMessage
from jaxobs.roofline_model.traced import REPEATED, join
from jaxobs.trace import read_trace
from tests.cost_model.conftest import hlo_module_from_text
from tests.trace.written import WrittenPlane, space

BLOCKS, RUNS = 16, 10
ORDER = 512
FACTORISED = ORDER**3 / 3  # FLOPs of a Cholesky factorisation
CHOLESKY = f"""HloModule jit_solve, is_scheduled=true
ENTRY main {{ p = f32[{ORDER},{ORDER}] parameter(0)
  potrf = (f32[{ORDER},{ORDER}], s32[]) custom-call(p), custom_call_target="cusolver_potrf_ffi",
    api_version=API_VERSION_TYPED_FFI
  g = f32[{ORDER},{ORDER}] get-tuple-element(potrf), index=0
  ROOT n = f32[{ORDER},{ORDER}] negate(g) }}"""
ALONE = CHOLESKY.replace("  ROOT n = f32[512,512] negate(g) }", "}").replace("  g =", "  ROOT g =")
LOOP = f"""HloModule jit_loop, is_scheduled=true
cond {{ c = (s32[], f32[{ORDER},{ORDER}]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT }}
body {{ b = (s32[], f32[{ORDER},{ORDER}]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[{ORDER},{ORDER}] get-tuple-element(b), index=1
  potrf = (f32[{ORDER},{ORDER}], s32[]) custom-call(x), custom_call_target="cusolver_potrf_ffi",
    api_version=API_VERSION_TYPED_FFI
  g = f32[{ORDER},{ORDER}] get-tuple-element(potrf), index=0
  ROOT t = (s32[], f32[{ORDER},{ORDER}]) tuple(j, g) }}
ENTRY main {{ i = s32[] constant(0)
  p = f32[{ORDER},{ORDER}] parameter(0)
  q = f32[{ORDER},{ORDER}] negate(p)
  t = (s32[], f32[{ORDER},{ORDER}]) tuple(i, q)
  loop = (s32[], f32[{ORDER},{ORDER}]) while(t), condition=cond, body=body
  g = f32[{ORDER},{ORDER}] get-tuple-element(loop), index=1
  ROOT n = f32[{ORDER},{ORDER}] cosine(g) }}"""


def profiled(text, run, *, programs=(7,), runs=RUNS):
    """A GPU that ran programs of this module; `run` lists the kernels of a run: name, instruction, microseconds."""
    proto = hlo_module_from_text(text).as_serialized_hlo_module_proto()
    metadata = WrittenPlane("/host:metadata")
    device = WrittenPlane("/device:GPU:0", device_vendor="Nvidia", gpu_device_name="NVIDIA H100 80GB HBM3")
    events, at = [], 0
    for program in programs:
        metadata.kind(f"jit_f({program})", **{"Hlo Proto": HloMessage(module=proto).SerializeToString()})
        for _ in range(runs):
            for name, instruction, lasted in run:
                events.append((name, at, lasted, {"hlo_op": instruction, "program_id": program}))
                at += lasted + 1
            at += 1000
    trace = read_trace(space(metadata, device.line("Stream #1", events)))
    (found,) = trace.devices
    peaks = known_peaks(str(found.kind), "gpu", None, {}, elsewhere=True)
    cost = module_cost(proto)
    joined = join(trace, lambda *_: cost, {(found.host, found.name): peaks})
    return joined, cost


def only(values):
    (one,) = values
    return one


def kernels(instruction, times):
    return [(name, instruction, 10) for name in ("potrf_leaf", "trsm", "syrk")] * times


def test_a_call_that_works_in_blocks_is_one_execution_a_run():
    found, cost = profiled(CHOLESKY, [*kernels("potrf", BLOCKS), ("negate", "n", 20)])
    operations = {one.name: one for one in found.operations.values()}
    assert only(found.modules.values()).runs == RUNS
    assert operations["potrf"].executions == RUNS
    assert operations["potrf"].work.cost.flops == pytest.approx(RUNS * FACTORISED)
    executable = Executable(1, "solve", {}, 1)
    absorb(executable, only(found.modules.values()), operations.values(), cost.operations)
    assert executable.seconds_per_run == pytest.approx((BLOCKS * 30 + 20) * 1e-6)


def test_in_a_loop_it_runs_as_often_as_the_modules_runs_make_it():
    run = [("neg", "q", 20), *kernels("potrf", 5 * BLOCKS), ("cos", "n", 20)]
    found, _ = profiled(LOOP, run)
    (potrf,) = (one for one in found.operations.values() if one.name == "potrf")
    assert (potrf.executions, potrf.work.cost.flops) == (5 * RUNS, pytest.approx(5 * RUNS * FACTORISED))


def test_where_nothing_else_tells_the_runs_its_work_is_unknown_and_not_invented():
    found, _ = profiled(ALONE, kernels("potrf", BLOCKS))
    potrf = only(found.operations.values())
    assert only(found.modules.values()).runs is None
    assert not potrf.work.bounds
    assert REPEATED in potrf.work.reasons


def test_the_copies_of_a_loops_predicate_are_no_runs():
    """A loop whose trip count is unknown asks for its predicate in each turn, in its own name."""
    turn = [("add", "j", 5), ("MemcpyD2H", "loop", 1)]
    found, _ = profiled(LOOP, [("neg", "q", 20), *turn * 100, ("cos", "n", 20)], runs=3)
    assert only(found.modules.values()).runs == 3


def test_several_programs_of_one_content_run_on_one_device():
    """A function that is jitted anew in each turn has one content, and a program for each."""
    found, cost = profiled(
        CHOLESKY, [("potrf", "potrf", 60), ("negate", "n", 20)], programs=range(7, 13), runs=1
    )
    ran = only(found.modules.values())
    assert (ran.devices, ran.runs) == (1, 6)
    assert {one.devices for one in found.operations.values()} == {1}
    executable = Executable(1, "solve", {}, 1)
    absorb(executable, ran, found.operations.values(), cost.operations)
    assert executable.windows.runs == 6
