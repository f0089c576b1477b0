"""Scopes of autocast in a lowered graph, written so that Dynamo records each as one call again.

    gm = with_scopes(lower(graph))               # forward says `with torch.autocast(...)`

Dynamo records a scope as a call that enters it and one that leaves it. Told these calls, it goes into them and records
the switches of the process they are made of, which no graph holds; told the scope, it records the two calls. Reads and
writes nothing.
"""

from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import GraphModule, Node

_COUNTER = "# COUNTER:"
"""How FX begins the lines that say which node the next lines are of."""


def with_scopes(gm: GraphModule) -> GraphModule:
    """The same module, its forward written with `with` for every scope of autocast; unchanged where they cross."""
    found = _scopes(list(gm.graph.nodes))
    if found:
        gm.graph.on_generate_code(lambda _: lambda body: _nested(body, found))
        gm.recompile()
    return gm


def _scopes(nodes: list[Node]) -> dict[int, str]:
    """Place of a node that enters a scope -> its `with`, of one that leaves it -> ""; empty unless scopes nest."""
    found: dict[int, str] = {}
    entered: list[Node] = []
    for place, node in enumerate(nodes):
        if node.target is _enter_autocast:
            found[place] = f"with torch.autocast({', '.join(map(repr, node.args))}):"
            entered.append(node)
        elif node.target is _exit_autocast:
            if not entered or node.args != (entered.pop(),):
                return {}
            found[place] = ""
    return found if not entered else {}


def _nested(body: list[str], scopes: dict[int, str]) -> list[str]:
    """Lines of a forward, those of a scope indented under its `with`, which may hold none."""
    made: list[str] = []
    depth, scope = 0, None
    for line in "".join(body).split("\n"):
        indent = "    " * depth
        if line.startswith(_COUNTER):
            scope = scopes.get(int(line.removeprefix(_COUNTER)))
            made.append(line)
            if scope:
                made += [indent + scope, indent + "    pass"]
            depth += 0 if scope is None else 1 if scope else -1
        elif scope is None:
            made.append(indent + line)
    return ["\n".join(made)]
