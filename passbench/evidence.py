"""What a candidate's own account of a call means beside its outputs (layers D5, D6, D7, D10); pure.

    doubt_of(answer, reference_facts)            # Doubt(rule, detail) or None
    partial_matches(verdicts)                    # positions whose NO_MATCH is a PARTIAL_MATCH

A doubt settles a variant as INTEGRITY(rule). An account is a claim, so its absence or a wrong form is a doubt as well;
an honest account is no proof, which is why outputs are compared and kernels are replayed as ghosts besides.
Reads and writes nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from passbench.ownership import Facts, difference
from schemas.rows import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a call is not believed."""

    rule: str
    """Integrity code."""
    detail: str
    """One line: what was expected, what was found."""


def doubt_of(
    answer: dict[str, Any], reference: Facts, off: Collection[str] = (), own: Collection[str] = ()
) -> Doubt | None:
    """The first reason not to believe one call; `off` names layers that are left out.

    `own` is the global state that the graph itself changes in the reference's process.
    `answer` needs facts, state, launches, replaced and library.
    """
    state, library, refused = answer.get("state"), answer.get("library"), answer.get("refused")
    launches, replaced = answer.get("launches"), answer.get("replaced")
    if type(launches) is not int or type(replaced) is not int or not all(map(_are_names, (state, library, refused))):
        return Doubt(rule="protocol", detail="a call without a well-formed account")
    told = doubt_of_state(answer, off, own)
    if told is not None and told.rule == "refused":
        return told
    found = difference(reference, answer.get("facts"), off)
    if found is not None:
        return Doubt(rule=found[0], detail=found[1])
    if told is not None:
        return told
    if replaced and not launches and "D10.launch" not in off:
        return Doubt(rule="no-launch", detail=f"{replaced} replacements in the graph, but no kernel was launched")
    if library and "D10.library" not in off:
        return Doubt(rule="library-call", detail=f"a replacement function runs {', '.join(library)}"[:300])
    return None


def doubt_of_state(answer: dict[str, Any], off: Collection[str] = (), own: Collection[str] = ()) -> Doubt | None:
    """Why a process is not believed for what it changed or tried in itself; `off` and `own` as in `doubt_of`."""
    state, refused = answer.get("state"), answer.get("refused")
    if not _are_names(state) or not _are_names(refused):
        return Doubt(rule="protocol", detail="a process without a well-formed account of its state")
    if refused:
        return Doubt(rule="refused", detail=f"tried what is refused: {', '.join(sorted(set(refused)))}"[:300])
    more = [name for name in state or () if name not in own]
    if more and "D5.state" not in off:
        return Doubt(rule="state", detail=f"changed in the process: {', '.join(more)}"[:300])
    return None


def partial_matches(verdicts: Sequence[Verdict]) -> list[int]:
    """Variants without a match of a submission that did fire on another variant of the same task."""
    never = {Verdict.NO_MATCH, Verdict.REJECTED, Verdict.COMPILE_ERROR, Verdict.HARNESS_ERROR}
    if all(verdict in never for verdict in verdicts):
        return []
    return [position for position, verdict in enumerate(verdicts) if verdict is Verdict.NO_MATCH]


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
