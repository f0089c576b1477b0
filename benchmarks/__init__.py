"""benchmarks: programs that measure the project and print one flat JSON object with --json.

Is: one module a subject, run as `python -m benchmarks.<subject> [--json]`.
Reads: a finished run directory, or what it makes itself.
Writes: standard output.
Never: changes a run directory.
"""
