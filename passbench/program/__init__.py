"""The part of a submission that is timed and judged: its wrappers and kernels, taken from source, never from objects.

Is: a small language. `names` says what each name of a source file means, `closure` which statements a wrapper needs,
`wrappers` checks these statements and puts run-time checks into them, `kernels` checks what only Triton may compile;
`guards` are the run-time checks, `launcher` starts kernels and keeps the record of launches, `build` puts it together.
Reads syntax trees. Writes nothing. Never executes anything of a submission that these rules do not allow.
"""
