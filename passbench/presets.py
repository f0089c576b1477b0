"""Settings of a score: presets, class maps and weights. No torch.

    PRESETS["published"]                                  # the default
    chosen("paper", p=0.2, classes="accuracy=1,runtime=3")   # a preset with other settings, which its name says

| preset      | p   | b     | class map | weights | what it follows                                                   |
|-------------|-----|-------|-----------|---------|-------------------------------------------------------------------|
| `published` | 0   | 0.1   | published | current | the newest published results; the default                         |
| `paper`     | 0.1 | 0.1   | paper     | current | the paper; its score stands beside the chosen one in every report |
| `passnet`   | 0   | 0.001 | default   | current | the published evaluation script's earlier setting                 |
| `graphnet`  | 0   | 0.1   | default   | current | as `published`, wrong shapes and dtypes tolerated from level 1    |
| `older`     | 0   | 0.1   | published | older   | published results from before the weights changed                 |

From which level a failure is tolerated:

| class of failure                       | default | published | paper | extended |
|----------------------------------------|---------|-----------|-------|----------|
| accuracy: WRONG_VALUE, NONDETERMINISTIC | 1       | 1         | 1     | 1        |
| non_finite: NON_FINITE                 | 1       | 1         | 1     | 2        |
| mismatch: WRONG_SHAPE, WRONG_DTYPE     | 1       | 3         | 1     | 2        |
| runtime: RUNTIME_ERROR, TIMEOUT, OOM   | 3       | 3         | 2     | 3        |
| compile: COMPILE_ERROR and no match    | 3       | 3         | 3     | 4        |
| integrity, missing                     | never   | never     | never | never    |

`default` is this benchmark's own definition: outputs of a wrong form are wrong outputs. `published` treats them as the
published evaluation does, which finds no comparison in its log and so counts them among the failures at run time.
Reads and writes nothing.
"""  # fmt: skip

import math
from dataclasses import dataclass, replace

CLASS_VERSION = "2"
"""Version of VERDICT_CLASS and CLASS_MAPS together."""
NEVER = 99
MISSING = "missing"
CLASSES = ("accuracy", "non_finite", "mismatch", "runtime", "compile", "integrity", MISSING)
"""Error classes; the last two are never tolerated."""


def _levels(*found: int) -> dict[str, int]:
    return dict(zip(CLASSES, (*found, NEVER, NEVER), strict=True))


CLASS_MAPS: dict[str, dict[str, int]] = {
    "default": _levels(1, 1, 1, 3, 3),
    "published": _levels(1, 1, 3, 3, 3),
    "paper": _levels(1, 1, 1, 2, 3),
    "extended": _levels(1, 2, 2, 3, 4),
}
"""Class map name -> error class -> level from which a failure of the class is tolerated."""


def _normalised(raw: dict[int, float]) -> dict[int, float]:
    total = math.fsum(raw.values())
    return {level: weight / total for level, weight in raw.items()}


WEIGHTS = _normalised({**dict.fromkeys(range(-10, -5), 0.001), **dict.fromkeys((-5, -4, -3), 1.0),
                       **{t: 0.8 ** (t + 3) for t in range(-2, 4)}, 4: 0.001})  # fmt: skip
"""Weight of each level in the task score; sum 1."""
WEIGHT_SETS: dict[str, dict[int, float]] = {
    "current": WEIGHTS,
    "older": _normalised({-7: 0.13, -6: 0.40, **dict.fromkeys(range(-5, 5), 0.48)}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings of a score; two scores are comparable only if these are equal."""

    name: str
    """Name for people."""
    p: float
    """A slow-down s counts s^(p+1)."""
    b: float
    """What a failure counts."""
    class_map: str
    """Key of CLASS_MAPS, or pairs as `class_map_of` reads them."""
    last_level: int = 4
    """The grid is -10..last_level."""
    weights: str = "current"
    """Key of WEIGHT_SETS."""
    basis: str = "e2e"
    """Which time the speed-ups are of: host end to end."""
    version: str = CLASS_VERSION
    """CLASS_VERSION that was used."""

    @property
    def levels(self) -> range:
        """The grid of tolerance levels."""
        return range(-10, self.last_level + 1)

    @property
    def tolerated_from(self) -> dict[str, int]:
        """Error class -> level from which it is tolerated."""
        return class_map_of(self.class_map)

    @property
    def settings(self) -> str:
        """All settings in one line."""
        weights = "" if self.weights == "current" else f", {self.weights} weights"
        return f"p={self.p}, b={self.b}, map {self.class_map} v{self.version}{weights}, {self.basis} time"


PRESETS: dict[str, Preset] = {
    "published": Preset(name="published", p=0.0, b=0.1, class_map="published"),
    "paper": Preset(name="paper", p=0.1, b=0.1, class_map="paper"),
    "passnet": Preset(name="passnet", p=0.0, b=0.001, class_map="default"),
    "graphnet": Preset(name="graphnet", p=0.0, b=0.1, class_map="default"),
    "older": Preset(name="older", p=0.0, b=0.1, class_map="published", weights="older"),
}
DEFAULT = "published"
"""The preset of a score where none is named."""


def class_map_of(text: str) -> dict[str, int]:
    """A class map by name, or pairs such as "accuracy=1,runtime=2" on top of `default`; ValueError otherwise."""
    if text in CLASS_MAPS:
        return CLASS_MAPS[text]
    found = dict(CLASS_MAPS["default"])
    for pair in text.split(","):
        name, _, level = pair.strip().partition("=")
        if name not in CLASSES or not level.strip().lstrip("-").isdigit():
            maps, names = ", ".join(CLASS_MAPS), ", ".join(CLASSES)
            raise ValueError(f"{pair.strip()!r} is no class map; there are {maps}, or pairs CLASS=LEVEL of {names}")
        found[name] = int(level)
    return found


def chosen(name: str, *, p: float | None = None, b: float | None = None, classes: str = "") -> Preset:
    """A preset, with other settings where they are given; raises ValueError on an unknown name or a bad setting."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    preset = PRESETS[name]
    if p is not None and not 0 <= p < math.inf:
        raise ValueError(f"p must be a number of at least 0, not {p:g}")
    if b is not None and not 0 < b <= 1:
        raise ValueError(f"b must be above 0 and at most 1, not {b:g}")
    class_map_of(classes or preset.class_map)
    found = replace(preset, p=preset.p if p is None else p, b=preset.b if b is None else b,
                    class_map=classes or preset.class_map)  # fmt: skip
    return found if found == preset else replace(found, name=f"{name}, changed")
