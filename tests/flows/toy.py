"""Toy stages over real row types, for the tests of the runner: good, raising, hanging, greedy and dying items."""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from data.calls import Limits
from flows.stages import Account, Stage
from schemas.rows import (
    ConfigLink,
    Failure,
    FailureKind,
    Member,
    ModelConfig,
    ModelRef,
    Skipped,
    Text,
    content_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfig:
    """What to list."""

    names: tuple[str, ...] = ("a", "b", "c", "d", "e", "f", "g")
    """Names of models; the name decides what happens to the model."""
    seed: int = 0
    """Changes every id."""
    limit: int = 40
    """Most models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No settings."""


def failure_kind(error: BaseException) -> FailureKind:
    """Classify what `work` raises."""
    return FailureKind.BUILD_ERROR if isinstance(error, KeyError) else FailureKind.UNKNOWN


def list_models(*, config: ListConfig) -> Iterator[ModelRef]:
    """One model a name, in reverse, so that only sorting puts them in order."""
    if "?" in config.names:
        raise ValueError("no model is called '?': choose another name")
    for name in reversed(config.names[: config.limit]):
        yield ModelRef(
            model=content_id(name, str(config.seed)), source="toy", name=name, revision="1", library="toy",
            family=name, modality="other", pipeline_tag="", license="", gated=False, downloads=0, tags=("x",),
        )  # fmt: skip


def work(row: ModelRef, config: Nothing) -> Iterator[ModelConfig | Failure | Skipped | ConfigLink]:
    """Do what the model's name says; letters are good models."""
    yield from _misbehave(row.name)
    if row.name == "skip":
        yield Skipped(item=row.model, reason="asked for")
        return
    if row.name == "own-failure":
        yield Failure(
            stage="configs", item=row.model, name=row.name, kind=FailureKind.INPUT_MISMATCH, exception="",
            message="told by the stage", detail=Text(""),
        )  # fmt: skip
        return
    if row.name == "lost":
        return
    yield ConfigLink(model=row.model, architecture=f"arch-{row.name}")
    yield ModelConfig(
        architecture=f"arch-{row.name}", name=row.name, library="toy", library_version="1", class_name=row.name,
        config=Text("{}"), family=row.name, modality="other", license="",
    )  # fmt: skip


def _misbehave(name: str) -> Iterator[ModelConfig]:
    if name == "raise":
        raise RuntimeError("first line at /somewhere/deep/file.py 0x7f0011223344\nsecond line")
    if name == "key-error":
        raise KeyError("hidden_size")
    if name == "system-exit":
        raise SystemExit(3)
    if name == "os-exit":
        print("last words of the model", flush=True)
        os._exit(7)
    if name == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "hang":
        time.sleep(600)
    if name == "grandchild":
        subprocess.run(["sleep", "4711"], start_new_session=True, check=False)
    if name == "greedy":
        hoard = [bytearray(b"x") * (32 << 20) for _ in range(64)]
        time.sleep(600 + len(hoard))
    if name == "big":
        hoard = [bytearray(b"x") * (8 << 20) for _ in range(40) if time.sleep(0.04) is None]
        time.sleep(0.3 + 0 * len(hoard))
    if name == "chatty":
        print("noise on standard output, which is no channel for rows")
    yield from ()


def group(*, configs: Collection[ModelConfig], config: Nothing) -> Iterator[Member | Skipped]:
    """One member an architecture."""
    for row in configs:
        if row.name == "f":
            yield Skipped(item=row.architecture, reason="f is skipped")
        elif row.name != "vanish":
            yield Member(
                graph_id=row.architecture, key="k", architecture=row.architecture, family=row.family,
                modality=row.modality, license=row.license,
            )  # fmt: skip


def flood(*, links: Collection[ConfigLink], config: Nothing) -> Iterator[Member]:
    """Many members a link, more than one message holds; then what the link's model says."""
    for link in links:
        for number in range(10_000):
            yield Member(
                graph_id=f"{link.model}{number:06d}", key="k" * 100, architecture="", family="", modality="",
                license="",
            )  # fmt: skip
        list(_misbehave(link.model))


TOY: tuple[Stage, ...] = (
    Stage(
        name="models", doc="List.", function="tests.flows.toy:list_models", config="tests.flows.toy:ListConfig",
        scope="table", writes=("models",), takes=("seed", "limit"), shard_rows=4,
    ),
    Stage(
        name="configs", doc="Work.", function="tests.flows.toy:work", config="tests.flows.toy:Nothing",
        scope="item", reads=("models",), writes=("configs", "links"), shard_rows=3,
        limits=Limits(timeout_s=2.0, memory_gib=0.5),
    ),
    Stage(
        name="members", doc="Group.", function="tests.flows.toy:group", config="tests.flows.toy:Nothing",
        scope="table", reads=("configs",), writes=("members",),
        accounts=(Account(table="configs", column="architecture", written="members", by="graph_id"),),
    ),
)  # fmt: skip
"""Three stages over three tables and one link table."""
