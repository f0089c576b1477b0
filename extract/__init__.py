"""From models to graphs: list models, resolve their configurations, trace each distinct architecture once.

Is:     three stages (`models`, `configs`, `trace`) and what they need: `catalog`, `build`, `inputs`, `capture`,
        `initialisers`, `admission`, `failures`; `samples` reads and writes graphs in the published layout.
Reads:  the installed transformers and timm, and the hand-kept tables in `data/catalog/`.
Writes: nothing; stages yield ModelRef, ModelConfig, ConfigLink, GraphRecord and Failure rows.
Never:  a network access, weights, remote code, or a graph that was not checked.
"""
