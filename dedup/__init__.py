"""Graphs that are the same, found once and for all.

Is:     `classes`: groups graphs by their exact canonical form, on disk (`shards`), checked by an oracle (`audit`).
        `related`: families and near-duplicates. `twins`: what two graphs have in common, for people, and `picture`
        (of a `neighbourhood`): the same as SVG.
Reads:  graph rows.
Writes: CanonicalGraph and Relation rows (one a class) and Member rows (one a graph).
Never:  merges on a hash alone, or by anything coarser than the exact form.
"""
