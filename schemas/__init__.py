"""The rows this project is made of, what makes two graphs the same, and the only bridge to torch.fx.

Is:     the graph IR (`graph`), every other row (`rows`), the Arrow codec (`arrow`), the canonical form and its
        keys (`canonical`), what ops do (`ops`, `reviewed`, `effects`), readable generated source (`source`), and
        torch.fx <-> IR (`fx`, `propagation`).
Reads:  nothing.
Writes: nothing.
Never:  file or network access but for its own op table, heuristics, a row field without a doc line; only `fx`, `known`,
        `propagation` and `targets` import torch.
"""
