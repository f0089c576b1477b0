"""Whether two runs hold the same bytes, measurements aside.

    make run RUN=runs/a && make run RUN=runs/b && python -m benchmarks.repeat runs/a runs/b --json

Reads two finished run directories; prints how many table parts were compared and which differ. Tables of measurements
(profiles and the environment they were taken in) are left out. Exit code 1 if anything else differs.
"""

import argparse
import json
import sys
from pathlib import Path

from flows.stages import STAGES

MEASURED = frozenset({"profiles", "environments"})


def parts(run: Path) -> dict[str, bytes]:
    """Every Parquet part of every table but the measured ones, failures included, by path below the run."""
    tables = [table for stage in STAGES for table in (*stage.writes, f"{stage.name}.failures")]
    wanted = [table for table in tables if table.removesuffix(".failures") not in MEASURED]
    files = [path for table in wanted for path in sorted((run / table).glob("part-*.parquet"))]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def compare(left: Path, right: Path) -> dict[str, object]:
    """Number of parts compared and the names of those that differ or stand in one run alone."""
    ours, theirs = parts(left), parts(right)
    names = sorted({*ours, *theirs})
    different = [name for name in names if ours.get(name) != theirs.get(name)]
    size = sum(map(len, ours.values()))
    return {"parts": len(names), "bytes": size, "equal": len(names) - len(different), "different": different}


def main() -> None:
    """Compare two runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left", type=Path)
    parser.add_argument("right", type=Path)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    found = compare(options.left, options.right)
    if not found["parts"]:
        sys.exit(f"{options.left} and {options.right} hold no tables: run make run RUN=... for each first")
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{found['equal']} of {found['parts']} parts equal; different: {found['different'] or 'none'}")
    sys.exit(1 if found["different"] else 0)


if __name__ == "__main__":
    main()
