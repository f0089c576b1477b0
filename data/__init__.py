"""Where rows live: the run directory, child processes that return rows, and the published datasets.

Is:     `store` (parts, manifests, locks of a run directory), `child` (rows from killable processes), `publish` and
        `card` (the two dataset folders), `catalog/` (inputs kept by hand), `golden/` (small fixtures for tests).
Reads:  run directories, the catalog.
Writes: run directories and dataset folders, always by temporary name, fsync and rename.
Never:  what a row means: no stage logic, no torch, no prefect.
"""
