"""The plain runner: plans shards, runs them in child processes, skips what is done, proves that nothing vanished.

    with ChildPool(workers=2, work=store.path / ".work") as pool:
        runner = Runner(store=store, config=BuildConfig(), pool=pool)
        for stage in runner.stages: runner.run_stage(stage)

Reads and writes one run directory, whose lock the caller holds (`flows.build`). A shard is read -> computed -> written
under temporary names -> renamed -> manifest last; killed anywhere, the next run gives the same bytes.
Raises ConservationError if a stage loses an input row, StageFailed, StoreError and ValueError as `data.pool` does.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from data.calls import Call, Item
from data.parts import empty, key_texts, sorted_rows, without_repeats
from data.pool import GIB, Child, ChildPool
from data.store import FileRecord, Manifest, Part, RunDirectory, StoreError, read_range
from flows.config import BuildConfig
from flows.stages import STAGES, TABLES, Account, Stage, producer_of
from schemas.arrow import schema_of
from schemas.rows import SCHEMA_VERSION, Failure, Skipped, content_id

NAME_COLUMNS = ("name", "title", "pattern")
"""Columns that name a row for people, the first that exists."""


class ConservationError(AssertionError):
    """A stage lost input rows; the message names them."""


class Observer:
    """What a build tells whoever watches; override what you need."""

    def on_stage(self, stage: Stage, total: int, kept: int) -> None:
        """A stage begins: input rows (or 1 for a table stage), and how many of them are done already."""

    def on_event(self, event: str, stage: str, shard: int) -> None:
        """A shard moved on: start, item (once an input row), computed, written, renamed, done."""

    def on_note(self, text: str) -> None:
        """One line for the person: something was damaged and is being rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Consecutive rows of one stored part."""

    file: str
    """Path of the part inside the run directory."""
    digest: str
    """Digest of the whole part."""
    start: int
    """First row."""
    stop: int
    """Row after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One unit of work and of resume."""

    index: int
    """Number of the shard."""
    slices: tuple[Slice, ...]
    """Its input rows."""

    @property
    def rows(self) -> int:
        """Number of input rows."""
        return sum(piece.stop - piece.start for piece in self.slices)


@dataclass(slots=True, kw_only=True)
class Yield:
    """What a shard's calls gave, as Arrow tables by row type."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Append the tables of one answer."""
        for name, data in tables.items():
            self.tables.setdefault(name, []).append(data)

    def take(self, cls: type) -> pa.Table:
        """All rows of one type; a table without rows if there are none."""
        found = self.tables.get(cls.__name__)
        return pa.concat_tables(found).combine_chunks() if found else empty(cls)


class Runner:
    """Runs the stages of one build in one run directory."""

    def __init__(
        self,
        *,
        store: RunDirectory,
        config: BuildConfig,
        pool: ChildPool,
        stages: tuple[Stage, ...] = STAGES,
        observer: Observer | None = None,
    ) -> None:
        self.store, self.config, self.pool, self.stages = store, config, pool, stages
        self.observer = observer or Observer()
        self.computed = 0
        """Number of shards computed by this runner."""
        self._gates = {stage.name: threading.Semaphore(stage.parallel or config.workers) for stage in stages}
        self._plans: dict[str, list[Shard]] = {}
        self.settled = self._settle()

    def _settle(self) -> dict[str, dict[str, Any]]:
        """Every stage's whole configuration; a wrong setting fails here, before anything runs."""
        unknown = sorted(set(self.config.settings) - {stage.name for stage in self.stages})
        if unknown:
            raise ValueError(f"settings for {', '.join(unknown)}: no such stage")
        with self.pool.borrow() as child:
            return {stage.name: child.settle(self._call(stage, self.config.of_stage(stage))) for stage in self.stages}

    def _call(self, stage: Stage, config: dict[str, Any]) -> Call:
        return Call(
            stage=stage.name, function=stage.function, config_class=stage.config, config=config, limits=stage.limits
        )

    # --- planning ---------------------------------------------------------------------------------------------------
    def records(self, table: str) -> list[FileRecord]:
        """The parts of a table as the manifests of its stage list them, in order."""
        stage = producer_of(table, self.stages)
        found = []
        for shard in self.store.manifest_shards(stage.name):
            manifest = self.store.read_manifest(stage.name, shard)
            found += [] if manifest is None else [record for record in manifest.outputs if record.table == table]
        if not found:
            raise ValueError(f"{self.store.path} has no table {table!r} yet: run the stage {stage.name!r} first")
        return sorted(found, key=lambda record: record.file)

    def plan(self, stage: Stage) -> list[Shard]:
        """The shards of a stage: one for a table stage, else runs of `shard_rows` consecutive input rows; one without
        rows where there is no input row, so that the tables of the stage exist and are empty."""
        whole = [
            Slice(file=record.file, digest=record.digest, start=0, stop=record.rows)
            for table in stage.reads
            for record in self.records(table)
        ]
        if stage.scope == "table":
            return [Shard(index=0, slices=tuple(whole))]
        return [Shard(index=i, slices=s) for i, s in enumerate(_cut(whole, stage.shard_rows) or [()])]

    def fingerprint(self, stage: Stage, shard: Shard) -> dict[str, Any]:
        """Everything that decides a shard's bytes; a shard whose manifest holds the same is not run again."""
        return {
            "function": stage.function,
            "version": stage.version,
            "schema_version": SCHEMA_VERSION,
            "columns": content_id(*[str(schema_of(TABLES[table])) for table in (*stage.reads, *stage.writes)]),
            "config": self.settled[stage.name],
            "inputs": [asdict(piece) for piece in shard.slices],
            "libraries": {name: _version(name) for name in (*stage.libraries, "pyarrow")},
            "shard_rows": stage.shard_rows,
        }

    def is_done(self, stage: Stage, shard: Shard) -> bool:
        """Whether a shard's manifest matches and its files are whole; damaged files are moved aside and told."""
        try:
            manifest = self.store.read_manifest(stage.name, shard.index)
        except StoreError as error:
            self.observer.on_note(f"{str(error).rpartition(': ')[0]}: shard {shard.index} of {stage.name} is rebuilt")
            return False
        if manifest is None or manifest.fingerprint != self.fingerprint(stage, shard):
            return False
        damage = self.store.damage(manifest)
        for file, what in damage.items():
            aside = self.store.move_aside(file)
            self.observer.on_note(
                f"{self.store.path / file} {what}: shard {shard.index} of {stage.name} is rebuilt, the rest is kept"
                + (f" (the old file is now {aside})" if (self.store.path / aside).exists() else "")
            )
        return not damage

    def pending(self, stage: Stage) -> list[int]:
        """Plan a stage and return the numbers of the shards that must run."""
        shards = self.plan(stage)
        self._plans[stage.name] = shards
        todo = [shard for shard in shards if not self.is_done(stage, shard)]
        total = sum(shard.rows for shard in shards) if stage.scope == "item" else 1
        left = sum(shard.rows for shard in todo) if stage.scope == "item" else len(todo)
        self.observer.on_stage(stage, total, total - left)
        return [shard.index for shard in todo]

    # --- running ----------------------------------------------------------------------------------------------------
    def run_stage(self, stage: Stage) -> None:
        """Run what is missing of a stage with a bounded number of threads."""
        todo = self.pending(stage)
        with ThreadPoolExecutor(max_workers=self.config.workers, thread_name_prefix=stage.name) as threads:
            futures = [threads.submit(self.run_shard, stage, index) for index in todo]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.pool.abort()
                raise
        self.finish_stage(stage)

    def run_shard(self, stage: Stage, index: int) -> dict[str, Any]:
        """Compute and write one planned shard; returns its counts."""
        shard = self._plans[stage.name][index]
        with self._gates[stage.name]:
            self.store.drop_shard(stage.name, index)
            self.observer.on_event("start", stage.name, index)
            began = time.monotonic()
            gained = self._compute(stage, shard)
            self.observer.on_event("computed", stage.name, index)
            counts = _counts(_rows_in(stage, shard), gained) | {
                "seconds": round(time.monotonic() - began, 3),
                "peak_gib": round(self.pool.peak_bytes / GIB, 3),
            }
            self._write(stage, shard, gained, counts)
            self.observer.on_event("done", stage.name, index)
            self.computed += 1
        return counts

    def finish_stage(self, stage: Stage) -> None:
        """Remove files of an earlier plan: shards that are no more, parts that no manifest names."""
        keep: set[str] = set()
        for shard in self._plans[stage.name]:
            manifest = self.store.read_manifest(stage.name, shard.index)
            assert manifest is not None, f"shard {shard.index} of {stage.name} has no manifest after its run"
            keep |= {record.file for record in manifest.outputs} | {f"{stage.name}/part-{shard.index:05d}.json"}
        self.store.prune([*stage.writes, f"{stage.name}.failures"], keep)

    def _compute(self, stage: Stage, shard: Shard) -> Yield:
        gained = Yield()
        with self.pool.borrow() as child:
            call = self._call(stage, self.settled[stage.name])
            if stage.scope == "table":
                reads = {t: [self.store.path / record.file for record in self.records(t)] for t in stage.reads}
                gained.add(child.run_table(call, reads))
                for account in stage.accounts:
                    self._check_account(stage, account, gained)
            else:
                self._run_items(stage, shard, (child, call), gained)
        allowed = {TABLES[table].__name__ for table in stage.writes} | {"Failure", "Skipped"}
        strange = sorted(set(gained.tables) - allowed)
        assert not strange, f"stage {stage.name} yielded {strange}, but it writes {stage.writes}"
        return gained

    def _run_items(self, stage: Stage, shard: Shard, worker: tuple[Child, Call], gained: Yield) -> None:
        child, call = worker
        lost = []
        for row, item in self._items(stage, shard):
            answer = child.run_item(call, row, item)
            if not any(data.num_rows for data in answer.values()):
                lost.append(item.key)
            gained.add(answer)
            self.observer.on_event("item", stage.name, shard.index)
        _refuse_loss(stage, lost, shard.rows)

    def _items(self, stage: Stage, shard: Shard) -> Iterator[tuple[pa.Table, Item]]:
        cls = TABLES[stage.reads[0]]
        for piece in shard.slices:
            data = read_range(self.store.path / piece.file, piece.start, piece.stop)
            names = data[next((name for name in NAME_COLUMNS if name in data.column_names), data.column_names[0])]
            for index, key in enumerate(key_texts(data, cls)):
                yield data.slice(index, 1), Item(key=key, name=names[index].as_py())

    def _check_account(self, stage: Stage, account: Account, gained: Yield) -> None:
        """Every value of the read column must stand in the written one, among the failures or the skipped."""
        wanted = dict.fromkeys(self.store.read_column(account.table, account.column))
        found = set(_column(gained.take(TABLES[account.written]), account.by))
        found |= set(gained.take(Failure)["item"].to_pylist()) | set(gained.take(Skipped)["item"].to_pylist())
        _refuse_loss(stage, [value for value in wanted if value not in found], len(wanted))

    def _write(self, stage: Stage, shard: Shard, gained: Yield, counts: dict[str, Any]) -> None:
        parts: list[Part] = []
        for table in stage.writes:
            order = without_repeats if stage.ranked else sorted_rows
            data = order(gained.take(TABLES[table]), TABLES[table])
            counts["out"][table] = data.num_rows
            parts += _parts(stage, shard, table, data)
        failures = sorted_rows(gained.take(Failure), Failure)
        if failures.num_rows:
            parts += _parts(stage, shard, f"{stage.name}.failures", failures)
        records = self.store.write_parts(parts, lambda: self.observer.on_event("written", stage.name, shard.index))
        self.observer.on_event("renamed", stage.name, shard.index)
        self.store.write_manifest(
            Manifest(
                stage=stage.name,
                shard=shard.index,
                fingerprint=self.fingerprint(stage, shard),
                outputs=tuple(records),
                counts=counts,
            )
        )


def _cut(slices: Sequence[Slice], size: int) -> list[tuple[Slice, ...]]:
    """Cut consecutive slices into runs of `size` rows."""
    runs: list[list[Slice]] = []
    room = 0
    for piece in slices:
        start = piece.start
        while start < piece.stop:
            if room == 0:
                runs.append([])
                room = size
            stop = min(piece.stop, start + room)
            runs[-1].append(Slice(file=piece.file, digest=piece.digest, start=start, stop=stop))
            room -= stop - start
            start = stop
    return [tuple(run) for run in runs]


def _parts(stage: Stage, shard: Shard, table: str, data: pa.Table) -> list[Part]:
    """One part with the shard's number, or for a table stage as many as its rows need, at least one."""
    if stage.scope == "item":
        return [Part(table=table, index=shard.index, data=data)]
    starts = range(0, max(1, data.num_rows), stage.shard_rows)
    return [Part(table=table, index=i, data=data.slice(s, stage.shard_rows)) for i, s in enumerate(starts)]


def _rows_in(stage: Stage, shard: Shard) -> int:
    """Input rows of a shard, counted on the first table that the stage reads."""
    first = stage.reads[0] if stage.reads else ""
    return sum(piece.stop - piece.start for piece in shard.slices if piece.file.startswith(f"{first}/"))


def _counts(rows_in: int, gained: Yield) -> dict[str, Any]:
    failures, skipped = gained.take(Failure), gained.take(Skipped)
    return {
        "in": rows_in,
        "out": {},
        "failures": dict(sorted(Counter(failures["kind"].to_pylist()).items())),
        "skipped": dict(sorted(Counter(skipped["reason"].to_pylist()).items())),
    }


def _refuse_loss(stage: Stage, lost: Sequence[str], total: int) -> None:
    if lost:
        shown = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
        raise ConservationError(
            f"stage {stage.name} lost {len(lost)} of {total} input rows: {shown}; "
            "a stage owes every row it reads a row, a Failure or a Skipped"
        )


def _column(data: pa.Table, path: str) -> list[Any]:
    """Values of a column; "a.b" reads field b of the structs in list column a."""
    head, _, rest = path.partition(".")
    column = data[head]
    values: list[Any] = (pc.struct_field(pc.list_flatten(column), rest) if rest else column).to_pylist()
    return values


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
