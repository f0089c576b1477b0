"""Every path that needs a GPU, run once on a real one: under eight minutes, one JSON report.

    python -m benchmarks.gpu_check --out report.json

Reads the golden graphs and the test cases of the checkout; writes the report. Exit code 0 if every section ran and
agrees, 1 if not, 2 without a GPU (the report then says "no GPU"). Needs torch, triton, numpy, pyarrow and xxhash alone.
Every section runs in a child with a time limit and answers line by line, so that one that fails or hangs costs only
what it had not told yet.

| section     | what it does                                                                                          |
|-------------|-------------------------------------------------------------------------------------------------------|
| device      | versions, device, clocks, temperature and throttle reasons before and after                           |
| stand_in    | kernel maps of 15 checked programs with the GPU hidden                                                |
| maps        | the same programs run on the GPU: kernels by the profiler, against the stand-in and the real map      |
| profile     | 30 pieces in three dtypes, eager against Inductor, by the clock                                       |
| grade       | a Triton pass graded end to end on the GPU, with the isolation level that was reached                 |
| adversarial | every attack and control of tests/adversarial on the GPU, those marked "gpu" among them               |
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECTIONS: dict[str, float] = {
    "device": 30.0, "stand_in": 90.0, "maps": 90.0, "profile": 170.0, "grade": 70.0, "adversarial": 110.0
}  # fmt: skip
"""Section -> seconds it may take."""
TOTAL_S = 470.0
"""Seconds of everything; a section that would begin later is left out."""
DTYPES = ("float32", "float16", "bfloat16")
PIECES = 30
Lines = Iterator[dict[str, Any]]


# --- sections, each in a child ---------------------------------------------------------------------------------------
def device() -> Lines:
    """Versions and the state of the device."""
    import importlib.metadata
    import platform

    import torch

    properties = torch.cuda.get_device_properties(0)
    yield {
        "python": platform.python_version(), "torch": torch.__version__,
        "triton": importlib.metadata.version("triton"), "device": properties.name,
        "capability": list(torch.cuda.get_device_capability()), "processors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size, "memory_bytes": properties.total_memory, "state": throttle(),
    }  # fmt: skip


def throttle() -> str:
    """Clocks, temperature, power and throttle reasons as the driver's tool reports them; empty without it."""
    fields = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active,utilization.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    except OSError:
        return ""


def _maps() -> Lines:
    from benchmarks.mining_checked import CHECKED, graph_of
    from fusion_mining.kernel_map import compile_graph

    for case in CHECKED:
        launches = compile_graph(graph_of(case), device="cuda").launches
        generated = Counter(_unnumbered(item.kernel) for item in launches if not item.library)
        yield {"program": case.program.__name__, "generated": dict(generated),
               "library_calls": sum(item.library for item in launches)}  # fmt: skip


def stand_in() -> Lines:
    """Kernel maps with the GPU hidden."""
    from fusion_mining.device import stand_in as pretend
    from fusion_mining.targets import TARGETS

    pretend(TARGETS["H200"])
    yield from _maps()


def maps() -> Lines:
    """Kernel maps from the real device, and what the profiler sees when the programs run."""
    from benchmarks.mining_checked import CHECKED, graph_of

    mapped = {line["program"]: line for line in _maps()}
    for case in CHECKED:
        name = case.program.__name__
        yield mapped[name] | {"seen": dict(_profiled(graph_of(case)))}


def _profiled(graph: Any) -> Counter[str]:
    """Generated kernels that run in one call of a compiled graph, by name; others under "library"."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from passbench.inputs import materialize
    from schemas.fx import lower

    inputs = materialize(graph, seed=0, device="cuda")
    torch._dynamo.reset()
    compiled = torch.compile(lower(graph), dynamic=False, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            compiled(*inputs)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            compiled(*inputs)
            torch.cuda.synchronize()
    names = [event.name for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in names if not name.startswith(("Mem", "Activity"))]
    return Counter(_unnumbered(name) if name.startswith("triton_") else "library" for name in kernels)


def _unnumbered(name: str) -> str:
    """A kernel's name without the number at its end, which counts kernels of a process."""
    return name.rstrip("0123456789").rstrip("_")


def pieces() -> Iterator[Any]:
    """Picks from the golden graphs: the largest regions, no topology twice."""
    from benchmarks.golden import stored_graphs
    from fusion_mining.cut import cut
    from fusion_mining.grow import GrowConfig
    from fusion_mining.pieces import compute_ops, io_bytes
    from fusion_mining.regions import regions
    from schemas.canonical import canonicalize
    from schemas.functional import functionalise
    from schemas.rows import Pick

    seen: set[str] = set()
    for _, raw in stored_graphs():
        graph = functionalise(raw)
        for nodes in sorted(regions(graph, GrowConfig()), key=len, reverse=True)[:2]:
            form = canonicalize(cut(graph, nodes), free_outputs=True)
            if form.keys.topology not in seen and io_bytes(form.graph) < 2**26:
                seen.add(form.keys.topology)
                pattern = " > ".join(compute_ops(form.graph))
                yield Pick(subgraph=form.keys.exact, rank=len(seen), pattern=pattern, graph=form.graph)


def in_dtype(row: Any, dtype: str) -> Any:
    """The piece with its float32 inputs of another dtype; raises ValueError if it does not run so."""
    from schemas.propagation import respecify

    specs = [row.graph.nodes[index].outputs[0] for index in row.graph.placeholders]
    changed = [replace(spec, dtype=dtype) if spec.dtype == "float32" else spec for spec in specs]
    return row if changed == specs else replace(row, graph=respecify(row.graph, changed))


def profile() -> Lines:
    """Eager against Inductor by the clock."""
    from fusion_mining.profile import ProfileConfig
    from fusion_mining.profile import profile as measure
    from schemas.rows import Failure, Profile

    config = ProfileConfig(device="cuda", pairs=10, inner_us=500.0, max_seconds=0.5)
    for count, row in enumerate(pieces()):
        if count == PIECES:
            return
        for dtype in DTYPES:
            try:
                changed = in_dtype(row, dtype)
            except ValueError as error:
                yield {"piece": row.pattern[:120], "dtype": dtype, "refused": str(error)[:200]}
                continue
            for item in measure(changed, config):
                if isinstance(item, Profile | Failure):
                    yield {"piece": row.pattern[:120], "dtype": dtype, **_told(item)}


def _told(item: Any) -> dict[str, Any]:
    if hasattr(item, "kind"):
        return {"failure": str(item.kind), "message": item.message[:200]}
    return {
        "status": str(item.status), "verdict": str(item.verdict), "eager_us": item.eager_us,
        "inductor_us": item.inductor_us, "ci": [item.ci_low, item.ci_high], "recompiles": item.recompiles,
    }  # fmt: skip


def _graded(folders: list[Path], cpu_cases: bool) -> Lines:
    import torch

    from passbench.clock import Plan
    from passbench.run import Harness, Settings
    from passbench.submission import freeze
    from tests.passbench.cases import AddRelu, task_of, variants_of

    variants = variants_of(AddRelu(), [[torch.randn(4, 60), torch.randn(4, 60)]])
    plan = Plan(pairs=5, inner_us=500.0, max_seconds=1.0)
    settings = Settings(device="cuda", inductor=not cpu_cases, draws=2, plan=plan, timeout_s=60.0)
    with Harness(settings) as harness:
        for folder in folders:
            case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
            (row,) = harness.grade(freeze(folder), task_of(variants), variants).results
            yield {"case": folder.name, "expected": [case["verdict"], case["rule"]],
                   "without_policy": case["without_policy"], "gpu": bool(case.get("gpu")),
                   "found": [str(row.verdict), row.rule], "detail": row.detail, "speedup": row.speedup,
                   "isolation": row.isolation}  # fmt: skip


def grade() -> Lines:
    """The plain honest submission."""
    yield from _graded([ROOT / "tests" / "adversarial" / "benign_plain"], cpu_cases=False)


def adversarial() -> Lines:
    """Every case; those marked for a GPU first."""
    folders = [path.parent for path in sorted((ROOT / "tests" / "adversarial").glob("*/case.json"))]
    marked = {path: bool(json.loads((path / "case.json").read_text()).get("gpu")) for path in folders}
    yield from _graded(sorted(folders, key=lambda path: (not marked[path], path.name)), cpu_cases=True)


RUN: dict[str, Callable[[], Lines]] = {
    "device": device, "stand_in": stand_in, "maps": maps, "profile": profile, "grade": grade,
    "adversarial": adversarial,
}  # fmt: skip


# --- the parent ------------------------------------------------------------------------------------------------------
def section(name: str, seconds: float) -> dict[str, Any]:
    """Run one section in a child; what it told, and how it ended."""
    began = time.monotonic()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    env |= {"CUDA_VISIBLE_DEVICES": ""} if name == "stand_in" else {}
    with tempfile.TemporaryDirectory(prefix="passnet-gpu-") as folder:
        told, errors = Path(folder) / "told.jsonl", Path(folder) / "errors"
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu_check", "--section", name, "--out", str(told)]
        with errors.open("w") as log:
            child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True)
            try:
                ended = f"exit status {child.wait(seconds)}"
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()
                ended = f"stopped after {seconds:.0f} s"
        lines = (
            [json.loads(text) for text in told.read_text().splitlines() if text.endswith("}")] if told.exists() else []
        )
        tail = errors.read_text(errors="replace")[-1500:] if ended != "exit status 0" else ""
    return {"ended": ended, "seconds": round(time.monotonic() - began, 1), "lines": lines, "errors": tail}


def verdicts(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The sums of all sections."""
    lines = {name: part["lines"] for name, part in found.items()}
    stood = {line["program"]: line for line in lines.get("stand_in", [])}
    checked = [(line, stood.get(line["program"])) for line in lines.get("maps", [])]
    seen = [line for line in lines.get("profile", []) if "status" in line]
    cases = [line for line in lines.get("adversarial", []) if not line["without_policy"]]
    return {
        "maps_checked": len(checked),
        "maps_as_stood_in": sum(bool(other) and line["generated"] == other["generated"] for line, other in checked),
        "maps_as_profiled": sum(
            line["generated"] == {k: v for k, v in line["seen"].items() if k != "library"} for line, _ in checked
        ),
        "profiles": len(seen), "profiles_measured": sum(line["status"] == "measured" for line in seen),
        "profiles_slower": sum(line["verdict"] == "SLOWER" for line in seen),
        "recompiles": sum(line["recompiles"] for line in seen),
        "graded_passed": sum(line["found"][0] == "PASSED" for line in lines.get("grade", [])),
        "isolation": next((line["isolation"] for line in lines.get("grade", [])), ""),
        "adversarial_cases": len(cases),
        "adversarial_as_expected": sum(line["expected"] == line["found"] for line in cases),
        "sections_whole": sum(part["ended"] == "exit status 0" for part in found.values()),
    }  # fmt: skip


def check(out: Path) -> int:
    """Run every section that fits and write the report after each; returns the exit code."""
    began = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    for name, seconds in SECTIONS.items():
        left = TOTAL_S - (time.monotonic() - began)
        if left < 15:
            break
        found[name] = section(name, min(seconds, left))
        report = {"gpu": True, **verdicts(found), "state_after": throttle(), "sections": found}
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sums = verdicts(found)
    whole = sums["sections_whole"] == len(SECTIONS) and sums["maps_checked"] == sums["maps_as_profiled"]
    return 0 if whole and sums["graded_passed"] == 1 else 1


def main() -> None:
    """Entry of `python -m benchmarks.gpu_check`."""
    parser = argparse.ArgumentParser(description="Every path that needs a GPU, run once on a real one.")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="where the report goes")
    parser.add_argument("--section", choices=list(RUN), help="run one section in this process, a JSON line a result")
    options = parser.parse_args()
    if options.section:
        with options.out.open("a", encoding="utf-8") as file:
            for line in RUN[options.section]():
                file.write(json.dumps(line) + "\n")
                file.flush()
        return
    import torch

    if not torch.cuda.is_available():
        options.out.write_text(json.dumps({"gpu": False, "reason": "no GPU"}) + "\n", encoding="utf-8")
        print("no GPU")
        sys.exit(2)
    code = check(options.out)
    report = json.loads(options.out.read_text(encoding="utf-8"))
    print(json.dumps({key: value for key, value in report.items() if key != "sections"}))
    sys.exit(code)


if __name__ == "__main__":
    main()
