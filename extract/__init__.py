"""From models to graphs: list models, resolve their configurations, trace each distinct architecture once.

Is:     three stages (`models`, `configs`, `trace`) and what they need: `catalog`, `zoos`, `files`, `adjust`, `build`,
        `inputs`, `examples`, `held`, `described`, `capture`, `record` (with `known`, `spelled_call`), `points`, `aten`,
        `ladder`, `scale`, `patches`, `warm`, `initialisers`, `sharing`, `admission`, `numeric` (over `eager`,
        `outside`, `draws`, `results`), `isolation`, `failures`; `hub` (over `hub_session`) lists a Hub, `samples` is
        the published layout.
Reads:  the installed transformers and timm, the tables in `data/catalog/`; on request a Hub or sample folders.
Writes: the cache of the Hub source; stages yield ModelRef, ModelConfig, ConfigLink, GraphRecord and Failure rows.
Never:  a network access but that of the Hub source, weights, remote code, or a graph that was not checked.
"""
