"""A toy stage whose module warms up, for the tests of forked children."""

import os
import threading
from collections.abc import Iterator

from schemas.rows import ModelConfig, ModelRef, Text
from tests.flows import toy

WARMED: list[int] = []
"""The process that warmed up, once a time it did."""
failure_kind = toy.failure_kind


def warm_up() -> None:
    """Note which process this is; with THREADED in the environment, start a thread that never ends."""
    WARMED.append(os.getpid())
    if os.environ.get("THREADED"):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def work(row: ModelRef, config: toy.Nothing) -> Iterator[ModelConfig]:
    """Misbehave as the name says, else tell who warmed up, who the parent is, and who works."""
    for found in toy.work(row, config):
        if isinstance(found, ModelConfig):
            yield ModelConfig(
                architecture="", name=row.name, library="", library_version="", class_name="",
                config=Text(" ".join(map(str, [*WARMED, os.getppid(), os.getpid()]))), family="", modality="",
                license="",
            )  # fmt: skip
