"""Pieces that one kernel could compute, cut out of whole graphs, and what a compiler makes of them.

Is:     `op_classes` (what an op is), `functional` (in-place made functional where nobody can tell), `grow` (which
        fusible pieces there are), `blocks` (what a graph repeats), `sole` (single ops), `cut` (a piece as a graph of
        its own), and the stages `mine`, `pieces`, `kernels`, `profile`. For kernels: `targets` (GPUs as data), `device`
        (a GPU that is not there), `kernel_map` and `provenance` (what Inductor makes of which nodes), `resources`
        (registers and spills), `estimate` (times by roofline), `interpret` (generated kernels on the CPU).
Reads:  CanonicalGraph rows; `profile` also runs pieces.
Writes: Occurrence, Subgraph, Pick, KernelMap, Kernel, Estimate, Environment and Profile rows.
Never:  traces anything again, or lets what a compiler fuses decide what is a candidate.
"""
