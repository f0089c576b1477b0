"""Replacement functions that keep something between calls, or leave a refusal behind: name -> (module, rule)."""

from tests.passbench.forms import ADD, HEAD, UNARY

SQUARED = """
    out = torch.empty_like(x)
    if n < 60:
        square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
"""


def _counting(count: str, make: str = "") -> str:
    return f"{HEAD}{UNARY}{make}\n\n@torch.fx.wrap\ndef run(x):\n    n = {count}{SQUARED}"


def _replacing(last: str) -> str:
    """A function that computes with a tensor, and raises something else while the refusal leaves a `try`."""
    return f"""{HEAD}{UNARY}
def fail():
    raise ValueError("gone")


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    try:
        try:
            y = x + 1
        finally:
            {last}
    except (ValueError, ZeroDivisionError):
        pass
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
"""


def _closure(made: str, change: str) -> str:
    return f"""
def make():
    seen = {made}

    def tick():
        {change}
        return len(seen)

    return tick

"""


REFUSED = {
    "list_in_a_closure": (_counting("tick()", _closure("[]", "seen.append(1)") + "tick = make()"), "state"),
    "dictionary_in_a_closure": (_counting("tick()", _closure("{}", "seen[len(seen)] = 1") + "tick = make()"), "state"),
    "closure_in_a_table": (
        _counting("TABLE['tick']()", _closure("[]", "seen.append(1)") + "TABLE = {'tick': make()}"),
        "state",
    ),
    "list_in_a_partial": (
        _counting("tick()", "import functools\n\n\ndef add(seen):\n    seen.append(1)\n    return len(seen)\n\n\n"
                            "tick = functools.partial(add, [])"),
        "state",
    ),
    "buffer_of_the_module_returned": (
        f"""{HEAD}{UNARY}
BUFFER = torch.empty(6, 40)


@torch.fx.wrap
def run(x):
    square_kernel[(4,)](x, BUFFER, x.numel(), 64)
    return BUFFER
""",
        "kept-output",
    ),
    "refusal_swallowed": (
        f"""{HEAD}{ADD}
@torch.fx.wrap
def run(x):
    try:
        x = x + 1
    finally:
        return x
""",
        "wrapper-syntax",
    ),
    "refusal_replaced": (_replacing("raise ValueError('gone')"), "tensor-operator"),
    "refusal_replaced_unsaid": (_replacing("1 // (x.dim() - 2)"), "tensor-operator"),
    "refusal_replaced_in_a_call": (_replacing("fail()"), "tensor-operator"),
    "match_that_binds": (
        f"""{HEAD}{ADD}
@torch.fx.wrap
def run(x):
    match x:
        case [1, 2]:
            return x.clone()
    return x
""",
        "wrapper-syntax",
    ),
    "partial_of_torch": (
        f"{HEAD}import functools\n{ADD}relu = functools.partial(torch.relu)\n\n\ndef run(x):\n    return relu(x)\n",
        "torch-call",
    ),
    "partial_of_a_method": (
        f"{HEAD}import functools\n{ADD}\n\ndef run(x):\n    return functools.partial(x.relu)()\n",
        "wrapper-attribute",
    ),
    "partial_of_a_tensor": (
        f"{HEAD}import functools\n{ADD}\n\ndef run(x):\n    return functools.partial(x)()\n",
        "wrapper-call",
    ),
}  # fmt: skip
