"""The whole story in a table, and what runs it.

Is:     `stages` (the literal table of stages), `config` (one build's settings), `run` (the plain runner),
        `orchestrate` (the same runner under Prefect), `report` and `progress` (what a person sees), `cli`.
Reads:  run directories.
Writes: run directories, through `data.store`.
Never:  what a stage computes; torch is imported by child processes alone, prefect by `orchestrate` alone.
"""
