"""A build in a process of its own that kills itself with SIGKILL at a given event; run by the tests.

python -m tests.flows.drive RUN TABLE EVENT STAGE SHARD [ENGINE]     # TABLE: toy or real; EVENT "never" ends well
"""

import json
import os
import signal
import sys
from pathlib import Path

from flows.build import PUBLISH, Plan, build
from flows.config import BuildConfig, preset
from flows.run import Observer
from flows.stages import STAGES
from tests.flows.toy import TOY

TOY_NAMES = ("a", "b", "raise", "key-error", "skip", "own-failure", "chatty", "f", "os-exit")
"""Models of the toy build: good ones and quick failures."""


class Killer(Observer):
    """Kill this very process, without any chance to clean up, at one event."""

    def __init__(self, event: str, stage: str, shard: int) -> None:
        self._wanted = (event, stage, shard)

    def on_event(self, event: str, stage: str, shard: int) -> None:
        """Die here if this is the event."""
        if (event, stage, shard) == self._wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_note(self, text: str) -> None:
        """Say it."""
        print("note:", text, flush=True)


def main(argv: list[str]) -> None:
    """Run one build; print how many shards it computed."""
    run, table, event, stage, shard, *rest = argv
    toy = table == "toy"
    plan = Plan(
        engine=rest[0] if rest else "local",
        stages=TOY if toy else STAGES,
        publish="" if toy else PUBLISH,
        observer=Killer(event, stage, int(shard)),
    )
    config = BuildConfig(settings={"models": {"names": list(TOY_NAMES)}}) if toy else preset("small")
    outcome = build(Path(run), config, plan)
    print(json.dumps({"computed": outcome.computed}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
