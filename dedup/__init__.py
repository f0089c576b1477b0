"""Graphs that are the same, found once and for all.

Is:     `classes`: groups graphs by their exact canonical form.
Reads:  graph rows.
Writes: CanonicalGraph rows (one a class) and Member rows (one a graph).
Never:  merges on a hash alone, or by anything coarser than the exact form.
"""
