"""A graph made ready for numbering: operands in canonical spelling, what is live, what effects tie to their place.

Is: `prepare`, `body_of`, `order_of_effects`, used by `schemas.canonical`. Reads and writes nothing; no torch.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from schemas import effects
from schemas.forms import Token, exchangeable, storage_classes
from schemas.graph import Graph

if TYPE_CHECKING:
    from schemas.colours import Colours


@dataclass(kw_only=True)
class Prepared:
    """A graph made ready for numbering; lists are indexed by old node number."""

    tokens: list[Token]
    paired: list[bool]
    """Whether the two operands of a node have no order."""
    kids: list[tuple[int, ...]]
    chain: list[int]
    free: bool
    """Whether the outputs have no order."""
    tails: dict[int, bytes] = field(default_factory=dict)
    versions: dict[int, dict[int, int]] = field(default_factory=dict)
    classes: list[int] = field(default_factory=list)
    """Storage class of every value, if any is written."""
    colours: "Colours | None" = None
    """Hashes of the nodes once they were asked for (`schemas.colours.colours_of`)."""

    @cached_property
    def coarse(self) -> "Prepared":
        """The same graph without what exact forms alone tell apart: bits and strides that follow operand order."""
        paired = [token.commutative for token in self.tokens]
        return self if paired == self.paired else replace(self, paired=paired, colours=None)

    @cached_property
    def live(self) -> list[int]:
        """Nodes that the output or an effect needs, ascending."""
        alive = bytearray(len(self.tokens))
        for root in (*self.chain, len(self.tokens) - 1):
            alive[root] = 1
        kids = self.kids
        for index in range(len(alive) - 1, -1, -1):
            if alive[index]:
                for kid in kids[index]:
                    alive[kid] = 1
        return [index for index, is_live in enumerate(alive) if is_live]

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """For every live node the live nodes that read it, one entry an operand."""
        found: dict[int, list[int]] = {index: [] for index in self.live}
        for index in self.live:
            for kid in self.kids[index]:
                found[kid].append(index)
        return found


def prepare(graph: Graph, tokens: list[Token], *, free: bool = False) -> Prepared:
    """Operands in canonical spelling, the chain of effects, and what effects tie to their place."""
    kids = [
        node.inputs if token.operand_order is None else tuple([node.inputs[k] for k in token.operand_order])
        for node, token in zip(graph.nodes, tokens, strict=True)
    ]
    chain = [index for index, token in enumerate(tokens) if token.effect is not None]
    paired = exchangeable(graph, tokens)
    found = Prepared(tokens=tokens, paired=paired, kids=kids, chain=chain, free=free and len(kids[-1]) > 1)
    if chain:
        _order_effects(graph, found)
    return found


def body_of(prepared: Prepared) -> Prepared:
    """The same graph with its sinks for outputs: what no live call reads, in the order of the outputs."""
    output = len(prepared.kids) - 1
    users = prepared.users
    sinks = [k for k in dict.fromkeys(prepared.kids[output]) if all(user == output for user in users[k])]
    if tuple(sinks) == prepared.kids[output]:
        return prepared
    return replace(prepared, kids=[*prepared.kids[:-1], tuple(sinks)], colours=None)


def _order_effects(graph: Graph, prepared: Prepared) -> None:
    """Fill in tails (place in the chain, scope) and versions: how often what an operand shows was written before."""
    tokens, tails, kids = prepared.tokens, prepared.tails, prepared.kids
    written = [(index, _written(graph, tokens, index)) for index in prepared.chain]
    mutable: dict[int, int] = {}
    storage: list[int] = []
    if any(operands for _, operands in written):
        classes = prepared.classes = storage_classes(graph, tokens, prepared.live)
        mutable = {classes[operand]: 0 for _, operands in written for operand in operands}
        storage = [cls if cls in mutable else -1 for cls in classes]
        for index in prepared.live:
            operands = kids[index]
            for kid in operands:
                if storage[kid] >= 0:
                    prepared.versions[index] = {k: mutable[storage[k]] for k in operands if storage[k] >= 0}
                    break
            effect = tokens[index].effect
            if effect is not None:
                for cls in dict.fromkeys([classes[operand] for operand in _written(graph, tokens, index)]):
                    mutable[cls] += 1
    scopes = [index for index in prepared.chain if _is_scope(tokens[index])]
    if scopes:
        passed = 0
        for index in prepared.live:
            if passed and graph.nodes[index].is_call:
                tails[index] = b" s%d" % passed
            passed += passed < len(scopes) and index == scopes[passed]
    for place, index in enumerate(prepared.chain):
        tails[index] = tails.get(index, b"") + b" e%d" % place


def _written(graph: Graph, tokens: list[Token], index: int) -> list[int]:
    effect, inputs = tokens[index].effect, graph.nodes[index].inputs
    return [] if effect is None else [inputs[operand] for operand in effect.writes]


def _is_scope(token: Token) -> bool:
    return token.effect is not None and token.effect.kind == effects.SCOPE


def order_of_effects(graph: Graph, prepared: Prepared) -> list[tuple[int, int]]:
    """The pairs (earlier, later) that must keep their order: effects, calls and scopes, reads and writes."""
    tokens, before, classes = prepared.tokens, list[tuple[int, int]](), prepared.classes
    readers: dict[int, list[int]] = {}
    for index in prepared.chain:
        readers.update({classes[operand]: [] for operand in _written(graph, tokens, index)})
    last_write, in_scope = dict[int, int](), list[int]()
    last_scope = last_effect = -1
    for index in prepared.live if prepared.chain else ():
        seen = dict.fromkeys([classes[kid] for kid in prepared.kids[index]] if readers else ())
        for cls in (cls for cls in seen if cls in readers):
            before.extend([(last_write[cls], index)] if cls in last_write else [])
            readers[cls].append(index)
        before.extend([(last_scope, index)] if last_scope >= 0 else [])
        if tokens[index].effect is not None:
            before.extend([(last_effect, index)] if last_effect >= 0 else [])
            last_effect = index
            for cls in dict.fromkeys([classes[operand] for operand in _written(graph, tokens, index)]):
                before.extend((reader, index) for reader in readers[cls] if reader != index)
                readers[cls], last_write[cls] = [], index
        if _is_scope(tokens[index]):
            before.extend((earlier, index) for earlier in in_scope)
            in_scope, last_scope = [], index
        else:
            in_scope.append(index)
    return before
