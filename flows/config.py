"""One build's settings: a frozen dataclass that goes to JSON and back, and two presets.

    config = preset("default", seed=1, limit=80)
    BuildConfig.from_json(config.to_json()) == config

Reads and writes nothing. `settings` overrides single fields of stage configurations by name; what a stage's
configuration finally holds, defaults included, is told by the stage's own class in a child process.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from data.store import RunDirectory
from flows.report import read_record
from flows.stages import Stage

Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """Everything a person can choose about a build."""

    seed: int = 0
    """Seed of every sampled choice."""
    limit: int = 40
    """Most models."""
    select: tuple[str, ...] = ()
    """Patterns of model names ("bert*", "timm/resnet50"); empty picks over all kinds of model."""
    workers: int = 2
    """Child processes at a time; never changes a table."""
    memory_gib: float = 5.4
    """Most resident GiB of the whole build, above which children make room for each other; never changes a table."""
    settings: Settings = field(default_factory=dict)
    """Stage name -> field of its configuration -> value."""

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit is the number of models, so it is at least 1, not {self.limit}")
        if self.workers < 1:
            raise ValueError(f"workers is the number of child processes, so it is at least 1, not {self.workers}")

    def of_stage(self, stage: Stage) -> dict[str, Any]:
        """Fields of a stage's configuration that this build sets."""
        taken = {name: getattr(self, name) for name in stage.takes}
        return {**taken, **self.settings.get(stage.name, {})}

    def to_json(self) -> str:
        """The configuration as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "BuildConfig":
        """Inverse of `to_json`; raises ValueError on anything else."""
        try:
            raw = json.loads(text)
            known: dict[str, Any] = {item.name: raw[item.name] for item in fields(BuildConfig) if item.name in raw}
            known["select"] = tuple(known.get("select", ()))
            known["settings"] = {stage: dict(found) for stage, found in known.get("settings", {}).items()}
            return BuildConfig(**known)
        except (TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a build's configuration in JSON form: {error}") from error


PRESETS: Mapping[str, BuildConfig] = {
    "default": BuildConfig(),
    "small": BuildConfig(
        limit=3,
        select=("bert/BertModel", "gpt2/GPT2Model", "timm/resnet18"),
        settings={
            "picks": {"limit": 4},
            "kernel_maps": {"limit": 1},
            "profiles": {"max_seconds": 0.3},
            "candidates": {"task_limit": 4},
        },
    ),
}
"""default: about 40 architectures. small: three, for a first look and for tests."""


def preset(name: str, **changes: Any) -> BuildConfig:
    """A preset with some fields changed (None leaves a field alone); raises ValueError that lists the presets."""
    if name not in PRESETS:
        raise ValueError(f"no preset is called {name!r}; the presets are {', '.join(PRESETS)}")
    return replace(PRESETS[name], **{key: value for key, value in changes.items() if value is not None})


def with_settings(config: BuildConfig, texts: Sequence[str]) -> BuildConfig:
    """A configuration with settings given as "stage.field=value" (value in JSON, or plain text) laid over it."""
    merged = {stage: dict(found) for stage, found in config.settings.items()}
    for text in texts:
        path, equals, value = text.partition("=")
        stage, dot, name = path.partition(".")
        if not (equals and dot and stage and name):
            raise ValueError(f"a setting reads STAGE.FIELD=VALUE, for instance graphs.seed=1, not {text!r}")
        try:
            merged.setdefault(stage, {})[name] = json.loads(value)
        except json.JSONDecodeError:
            merged.setdefault(stage, {})[name] = value
    return replace(config, settings=merged)


def of_run(store: RunDirectory) -> BuildConfig:
    """The configuration of the last build in a run directory; raises ValueError if there was none."""
    record = read_record(store)
    if not record:
        raise ValueError(f"{store.path} is no run directory: run `passnet build --out {store.path}` first")
    try:
        return BuildConfig.from_json(json.dumps(record.get("config")))
    except ValueError as error:
        raise ValueError(f"{store.path / 'run.json'}: {error}; delete it and build again") from error
