"""Who owns the memory of a call's outputs, and which inputs the call changed (layers D6 and D7).

    watch = Watch(inputs)                        # before the call
    outputs = call(*inputs)
    facts = watch.facts(outputs, earlier)        # after it; JSON
    difference(reference_facts, candidate_facts) # (integrity code, sentence) or None

Both workers state facts about their own call; only the orchestrator compares them: what the reference does to its
inputs and outputs, a candidate may do too, and nothing more. A candidate's facts are claims, so they are checked for
form. Reads and writes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

Facts = Mapping[str, Any]
_LAYER = {"aliases": "D7.alias", "twins": "D7.alias", "reused": "D7.reused", "changed": "D6.mutation"}


class Watch:
    """The bytes of all input storages as they were before a call."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.inputs = list(inputs)
        self.before = [_bytes(value).clone() if isinstance(value, torch.Tensor) else None for value in inputs]

    def changed(self) -> list[int]:
        """Positions of the inputs whose storage holds other bytes now."""
        found = []
        for position, (value, before) in enumerate(zip(self.inputs, self.before, strict=True)):
            if before is not None:
                now = _bytes(value)
                if now.shape != before.shape or not torch.equal(now, before):
                    found.append(position)
        return found

    def facts(self, outputs: Sequence[Any], earlier: Sequence[torch.Tensor] = ()) -> dict[str, Any]:
        """Facts of a call: per output its device and the inputs it aliases; outputs in one storage; changed inputs."""
        places = [_place(value) for value in outputs]
        own = [_place(value) for value in self.inputs]
        past = {_place(value) for value in earlier} - {None} - set(own)
        return {
            "device": [value.device.type if isinstance(value, torch.Tensor) else "" for value in outputs],
            "odd": [i for i, value in enumerate(outputs) if not _is_plain(value)],
            "aliases": [[i, j] for i, place in enumerate(places) for j in _same(place, own)],
            "twins": [[i, j] for i, place in enumerate(places) for j in _same(place, places[:i])],
            "reused": [i for i, place in enumerate(places) if place in past],
            "changed": self.changed(),
        }


def difference(reference: Facts, candidate: Any, off: Collection[str] = ()) -> tuple[str, str] | None:
    """Integrity code and sentence of the first thing a candidate does to memory that the reference does not.

    `off` names layers that are left out (`passbench.layers`).
    """
    if not _is_form(candidate):
        return "protocol", "malformed facts about outputs"
    if candidate["odd"] and "D7.type" not in off:
        return "output-type", f"output {candidate['odd'][0]} is not a plain tensor or number"
    if candidate["device"] != reference["device"] and len(candidate["device"]) == len(reference["device"]):
        return "output-device", f"outputs on {candidate['device']}, expected on {reference['device']}"
    sentences = (
        ("aliases", "output-alias", "output {0[0]} shares memory with input {0[1]}, the reference's does not"),
        ("twins", "output-alias", "outputs {0[1]} and {0[0]} share memory, the reference's do not"),
        ("reused", "output-reused", "output {0} stands in the memory of an earlier call's output"),
        ("changed", "input-changed", "input {0} was overwritten, the reference leaves it as it is"),
    )
    for name, code, sentence in sentences:
        if _LAYER[name] in off:
            continue
        more = [item for item in candidate[name] if item not in reference[name]]
        if more:
            return code, sentence.format(more[0])
    return None


def _is_form(facts: Any) -> bool:
    if not isinstance(facts, dict) or set(facts) != {"device", "odd", "aliases", "twins", "reused", "changed"}:
        return False
    if not all(isinstance(value, list) for value in facts.values()):
        return False
    singles = [item for name in ("odd", "reused", "changed") for item in facts[name]]
    pairs = [item for name in ("aliases", "twins") for item in facts[name]]
    whole = all(type(item) is int for item in singles) and all(isinstance(item, str) for item in facts["device"])
    return whole and all(isinstance(item, list) and [type(n) for n in item] == [int, int] for item in pairs)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (torch.Tensor, int, float, bool)


def _place(value: Any) -> int | None:
    """Where a tensor's storage begins; None for what has none."""
    if type(value) is not torch.Tensor or not value.untyped_storage().nbytes():
        return None
    return int(value.untyped_storage().data_ptr())


def _same(place: int | None, others: Sequence[int | None]) -> list[int]:
    return [] if place is None else [index for index, other in enumerate(others) if other == place]


def _bytes(value: torch.Tensor) -> torch.Tensor:
    """All bytes of a tensor's storage."""
    return torch.empty(0, dtype=torch.uint8, device=value.device).set_(value.untyped_storage())
