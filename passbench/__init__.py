"""The evaluation harness: what a pass is run on, how it is checked, timed, scored and reported.

Is:     synthetic inputs (`inputs`), the only clock (`clock`), comparison of outputs (`check`, `oracle`), the submission
        contract (`submission`, `policy`), the matcher (`match`, `calls`), processes (`isolate`, `sandbox`, `wire`,
        `worker`, `matching`, `candidate`), wrappers and kernels from source (`program`), what a call did beside its
        result (`ownership`, `evidence`, `launches`, `guard`), grading (`run`, `verdicts`, `failure`), scores from rows
        (`score`), the results folder (`results`), the terminal report (`report`) and the command line (`cli`, over
        `tasks`).
Reads:  a PassBench folder or a run directory (`tasks`), a submission folder.
Writes: one results folder a run: JSON and Parquet.
Never:  submitted code outside the matching process, a verdict parsed from text, pickle from a candidate, torch at
        import of this package, `score`, `tasks` or `cli`.
"""
