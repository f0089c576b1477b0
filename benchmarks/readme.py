"""Keep the generated blocks of README.md true.

    python -m benchmarks.readme                      # says which blocks are stale; exit code 1 if any is
    python -m benchmarks.readme --write              # rewrites them; figures come from the last `make run`

Reads README.md, `flows.stages.STAGES` and, for the figures, a run directory; writes README.md. The block `stages` is
checked by a test; the blocks of a run (`run`, `figures`) hold what one machine printed and are rewritten on request.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from flows.stages import STAGES

README = Path(__file__).resolve().parent.parent / "README.md"


def stages_block() -> str:
    """The stage table in Markdown."""
    lines = ["| stage | reads | writes | what it does |", "|---|---|---|---|"]
    for stage in STAGES:
        reads, writes = ", ".join(stage.reads) or "a source", ", ".join(stage.writes)
        lines.append(f"| {stage.name} | {reads} | {writes} | {stage.doc} |")
    return "\n".join(lines)


def run_block(run: Path) -> str:
    """What `make run` leaves: the graded examples, the funnel and what to do next."""
    commands = (
        ("passbench.cli", "score", str(run / "results"), "--unit-speed"),
        ("flows.cli", "status", "--out", str(run)),
    )
    texts = [
        subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=True).stdout.rstrip()
        for words in commands
    ]
    return "```\n" + "\n\n".join(texts) + "\n```"


def figures_block(run: Path) -> str:
    """The flat JSON object of `benchmarks.spine`."""
    from benchmarks.spine import measure

    return f"```json\n{json.dumps(measure(run), indent=1)}\n```"


def replaced(text: str, name: str, body: str) -> str:
    """The text with the named block's body replaced; raises ValueError if there is no such block."""
    pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"README.md has no block {name!r}")
    return pattern.sub(lambda match: f"{match[1]}{body}\n{match[2]}", text)


def main() -> None:
    """Check or rewrite the blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the blocks")
    parser.add_argument("--run", type=Path, default=Path("runs/default"), help="the run directory of `make run`")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    fresh = replaced(text, "stages", stages_block())
    if options.write and (options.run / "run.json").exists():
        fresh = replaced(fresh, "run", run_block(options.run))
        fresh = replaced(fresh, "figures", figures_block(options.run))
    if options.write:
        README.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        sys.exit("README.md is stale: run python -m benchmarks.readme --write")


if __name__ == "__main__":
    main()
