"""Publish a run as two folders that `datasets.load_dataset` opens and the Hub accepts unchanged.

Reads RUN/<table>/part-*.parquet and RUN/<table>.failures/part-*.parquet, streaming: at most one row group is held.
Writes RUN/datasets/<dataset>/<version>/ with data/<config>/<split>-00000-of-0000N.parquet, README.md, croissant.json
and manifest.json; beside the versions `latest` (a relative link) and latest.json.

    done = publish(Path("runs/default"))
    done.dataset            # runs/default/datasets/PassNet-Dataset/0.1.0

Versions are 0.1.N. Equal content reuses the newest version, anything else gets the next N and a new folder. The configs
in README.md name version and content digest, because `datasets` caches by their text alone: it would serve old rows
from a folder rewritten in place, and the rows of one run to the reader of another. A version is written under a
temporary name and renamed whole; the pointers move last, so that a kill leaves the former `latest` intact.
The bytes depend on the tables alone: no times, no absolute paths.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from data.card import Card, ConfigCard, FunnelRow, render
from data.contents import ADDED, BENCH, DATASET, MAX_MODELS, TABLES, Config, Source, published_table
from data.croissant import describe
from data.store import RunDirectory, StoreError, explained, file_digest

ROW_GROUP_BYTES = 32 * 2**20
"""Uncompressed bytes after which a row group ends."""
SHARD_BYTES = 512 * 2**20
"""Uncompressed bytes after which a file ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where the two datasets of a run lie."""

    dataset: Path
    """Folder of this version of PassNet-Dataset."""
    bench: Path
    """Folder of this version of PassBench."""
    dataset_version: str
    """x.y.z."""
    bench_version: str
    """x.y.z."""


def publish(run: Path) -> Published:
    """Write both datasets of a run; raises ValueError if the run holds no models, StoreError if it cannot write."""
    source = Source(run)
    if not source.store.count("models"):
        raise ValueError(f"{run} holds no models: it is no finished run; run `passnet build --out {run}` first")
    dataset = _emit(source, "PassNet-Dataset", DATASET, DATASET_SUMMARY)
    bench = _emit(source, "PassBench", BENCH, BENCH_SUMMARY)
    return Published(dataset=dataset, bench=bench, dataset_version=dataset.name, bench_version=bench.name)


# --- writing --------------------------------------------------------------------------------------------------------
class _Shards:
    """The Parquet files of one split: closed row groups near ROW_GROUP_BYTES, a new file after SHARD_BYTES.

    A file is made in memory (compressed) and written at its end: a full disk then meets a plain write, whereas the
    Parquet writer would abort the process.
    """

    def __init__(self, folder: Path, split: str, schema: pa.Schema) -> None:
        self.folder, self.split, self.schema = folder, split, schema
        self.files: list[Path] = []
        self.writer: pq.ParquetWriter | None = None
        self.sink = pa.BufferOutputStream()
        self.pending: list[pa.Table] = []
        self.rows = self.pending_bytes = self.file_bytes = 0

    def add(self, table: pa.Table) -> None:
        """Append rows."""
        self.pending.append(table)
        self.rows += table.num_rows
        self.pending_bytes += table.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()
        if self.file_bytes >= SHARD_BYTES:
            self.end_file()

    def flush(self) -> None:
        """Write what is pending as one row group; never an empty one, which readers stumble over."""
        self.writer = self.writer or self.open()
        if self.pending:
            group = pa.concat_tables(self.pending).combine_chunks()
            self.writer.write_table(group, row_group_size=group.num_rows)
            self.file_bytes += group.nbytes
        self.pending, self.pending_bytes = [], 0

    def open(self) -> pq.ParquetWriter:
        self.files.append(self.folder / f"{self.split}-{len(self.files):05d}.parquet")
        options = {"compression": "zstd", "write_page_index": True, "use_content_defined_chunking": True}
        self.sink = pa.BufferOutputStream()
        return pq.ParquetWriter(self.sink, self.schema, **options)

    def end_file(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.files[-1].write_bytes(self.sink.getvalue())
        self.writer, self.file_bytes = None, 0

    def close(self) -> None:
        """Finish: at least one file, and the number of files in every name."""
        if self.pending or not self.files:
            self.flush()
        self.end_file()
        for number, path in enumerate(self.files):
            path.rename(path.with_name(f"{self.split}-{number:05d}-of-{len(self.files):05d}.parquet"))


def _write_config(source: Source, config: Config, folder: Path) -> ConfigCard:
    folder.mkdir(parents=True)
    shards = {split: _Shards(folder, split, config.schema) for split in config.splits}
    for rows in config.read(source):
        sides = [config.split(source, row) for row in rows]
        for split, shard in shards.items():
            mine = [row for row, side in zip(rows, sides, strict=True) if side == split]
            if mine:
                shard.add(published_table(source, config, mine))
    for shard in shards.values():
        shard.close()
    counts = {split: shard.rows for split, shard in shards.items()}
    docs = {name: ADDED[name][1] for name in config.added}
    return ConfigCard(name=config.name, row=config.row, schema=config.schema, added=docs, rows=counts)


def _emit(source: Source, name: str, configs: Sequence[Config], summary: str) -> Path:
    """Write one dataset as a new version, or find it unchanged; -> the version's folder."""
    home = source.store.path / "datasets" / name
    building = home / ".building"
    with explained(home):
        shutil.rmtree(building, ignore_errors=True)
        try:
            building.mkdir(parents=True)
            cards = [_write_config(source, config, building / "data" / config.name) for config in configs]
            version, digest = _keep(building, _card(source, name, cards, summary))
        finally:
            shutil.rmtree(building, ignore_errors=True)
        _point(home, version, digest)
    return home / version


def _keep(building: Path, card: Card) -> tuple[str, str]:
    """Give what was built its version and name, unless the newest one holds the same, whole; -> (version, digest)."""
    home = building.parent
    digest = _content_digest(building, render(card))
    newest = _newest(home)
    same = newest is not None and newest[1] == digest
    if newest is not None and same and not damage(home / newest[0]):
        return newest
    version = "0.1.0" if newest is None else newest[0] if same else _after(newest[0])
    _finish(building, replace(card, version=version, digest=digest))
    shutil.rmtree(home / version, ignore_errors=True)
    os.replace(building, home / version)
    return version, digest


def damage(version: Path) -> list[str]:
    """Files of a published version that are not as they were written, its manifest first; empty if all is well."""
    try:
        files: dict[str, str] = json.loads((version / "manifest.json").read_text())["files"]
        return sorted(name for name, digest in files.items() if not _is(version / name, digest))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ["manifest.json"]


def _is(path: Path, digest: str) -> bool:
    try:
        return file_digest(path) == digest
    except StoreError:
        return False


def _content_digest(folder: Path, readme: str) -> str:
    digest = xxhash.xxh3_128(readme.encode())
    for path in sorted(folder.rglob("*.parquet")):
        digest.update(f"\n{path.relative_to(folder).as_posix()} {file_digest(path)}".encode())
    return str(digest.hexdigest())


def _newest(home: Path) -> tuple[str, str] | None:
    """(version, digest) of the newest version; no digest if its manifest cannot be read."""
    numbers = [int(path.name[4:]) for path in home.glob("0.1.*") if path.name[4:].isdigit()]
    if not numbers:
        return None
    version = f"0.1.{max(numbers)}"
    try:
        return version, str(json.loads((home / version / "manifest.json").read_text())["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return version, ""


def _after(version: str) -> str:
    head, last = version.rsplit(".", 1)
    return f"{head}.{int(last) + 1}"


def _finish(building: Path, card: Card) -> None:
    (building / "README.md").write_text(render(card))
    rows = {config.name: dict(config.rows) for config in card.configs}
    croissant = json.dumps(describe(card, building), indent=1)
    (building / "croissant.json").write_text(croissant + "\n")
    files = {path.relative_to(building).as_posix(): file_digest(path) for path in sorted(_files(building))}
    manifest = {"name": card.name, "version": card.version, "digest": card.digest, "rows": rows, "files": files}
    (building / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for path in sorted(building.rglob("*")):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _point(home: Path, version: str, digest: str) -> None:
    """Move `latest` and latest.json to a version, each in one step."""
    link, document = home / ".latest.tmp", home / ".latest.json.tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(version)
    os.replace(link, home / "latest")
    document.write_text(json.dumps({"version": version, "digest": digest, "path": version}, indent=1) + "\n")
    os.replace(document, home / "latest.json")


# --- the card -------------------------------------------------------------------------------------------------------
DATASET_SUMMARY = (
    "Computation graphs of real model architectures, and the pieces one kernel could compute, as exact torch.fx graphs "
    "beside readable source. No weights. Built by PassNet."
)
BENCH_SUMMARY = (
    "Tasks for machines that write compiler passes: each task is a family of subgraphs in several dtypes and shapes, "
    "to be sped up by one submission without changing what it computes. Built by PassNet."
)
LIMITS = (
    "Architectures are built with library default configurations unless the source says otherwise.",
    "Graphs are captured in eval mode with synthetic inputs of fixed shapes; shapes are concrete.",
    "Classes beyond the cap of their structure family stand in the split `surplus` of `graphs`, not in `train`.",
    "A piece stands in one of `fusible`, `typical` and `sole_op`, the first that it qualifies for.",
    "Architecture families stand in both splits of PassBench; structures, topologies and sets of operations do not.",
    "Timings hold for the machine named in the row and for no other.",
    f"A row names at most {MAX_MODELS} models; `num_models` counts all.",
)


def _card(source: Source, name: str, configs: Sequence[ConfigCard], summary: str) -> Card:
    licenses = sorted({license for (license,) in source.columns("models", "license")})
    return Card(
        name=name, summary=summary, version="0.0.0", digest="", configs=configs, funnel=funnel(source.store),
        licenses=licenses, limits=LIMITS,
    )  # fmt: skip


def funnel(store: RunDirectory) -> list[FunnelRow]:
    """Rows, failures by kind and pieces left out by reason, a table of the run."""
    found, source = [], Source(store.path)
    for table in TABLES:
        skipped: Counter[str] = Counter()
        manifests = [store.read_manifest(table, shard) for shard in store.manifest_shards(table)]
        for manifest in manifests:
            skipped.update(manifest.counts.get("skipped", {}) if manifest else {})
        kinds = Counter(kind for (kind,) in source.columns(f"{table}.failures", "kind"))
        rows = len(source.machine_of) if table == "environments" else store.count(table)
        found.append(FunnelRow(table=table, rows=rows, failures=dict(kinds), skipped=dict(skipped)))
    return found
