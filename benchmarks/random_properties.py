"""Property tests on random examples: what the gate, whose examples are fixed, leaves to luck.

    python -m benchmarks.random_properties --seeds 5 --json        # {"examples": ..., "failures": ..., "seeds": [...]}

Runs every test file that has properties, under the profile `random` of `tests/conftest.py`, once a seed. Writes
nothing. A find is printed with its falsifying example, to be kept as an explicit `@example` of its test.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PASSING = re.compile(r"(\d+) passing examples")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def property_files() -> list[str]:
    """The test files that draw examples, by path."""
    found = ROOT.joinpath("tests").rglob("test_*.py")
    return sorted(str(path.relative_to(ROOT)) for path in found if "@given" in path.read_text(encoding="utf-8"))


def run(files: list[str], seed: int) -> tuple[int, list[str], str]:
    """Examples that passed, tests that failed, and what pytest printed."""
    options = ["--hypothesis-profile=random", f"--hypothesis-seed={seed}", "--hypothesis-show-statistics"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return sum(map(int, _PASSING.findall(done.stdout))), _FAILED.findall(done.stdout), done.stdout + done.stderr


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("files", nargs="*", help="test files; all that have properties by default")
    given = parser.parse_args()
    seeds = list(range(given.first, given.first + given.seeds))
    examples, failures = 0, []
    for seed in seeds:
        passed, failed, printed = run(given.files or property_files(), seed)
        examples += passed
        failures += [f"{name} (seed {seed})" for name in failed]
        if failed:
            print(printed, file=sys.stderr)
    if given.json:
        print(json.dumps({"examples": examples, "failures": len(failures), "seeds": seeds, "failed": failures}))
    else:
        print(
            f"{examples} examples under {len(seeds)} seeds, {len(failures)} failures: {', '.join(failures) or 'none'}"
        )


if __name__ == "__main__":
    main()
