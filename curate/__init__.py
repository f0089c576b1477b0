"""curate: which families of mined pieces become benchmark tasks.

Is: two stages. `families` groups pieces into task candidates, `admit` runs them and keeps the ones worth solving.
Reads: rows of `subgraphs` and `candidates`.
Writes: rows of `candidates`, `tasks`, `variants`.
Never: opens files, imports extract, dedup or fusion_mining, measures time.
"""
