"""The run directory: tables as Parquet parts, one manifest a shard written last, atomic writes, one build lock.

    RUN/graphs/part-00000.parquet             rows of shard 0, sorted by key, explicit schema
    RUN/graphs.failures/part-00000.parquet    what shard 0 could not do
    RUN/graphs/part-00000.json                the manifest of shard 0: digests, configuration, counts; written last

    run = RunDirectory("runs/default")
    run.read_table("graphs")                  # rows, decoded; the row type stands in the Parquet metadata
    with run.lock(): run.write_parts([Part(table="graphs", index=0, data=table)])

Reads and writes one run directory. A crash at any moment leaves whole files under their final names and at most some
`*.tmp` files, which `clean` removes. Raises StoreError, one sentence, where the file system refuses.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from data.parts import parquet_bytes, row_type_of, without_repeats
from schemas.arrow import from_table

_PART = re.compile(r"part-(\d{5})\.(parquet|json)")
_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space and run the same command again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space and run the same command again"),
    errno.EFBIG: ("the file would exceed the size limit", "raise the limit (ulimit -f) and run the same command again"),
    errno.EACCES: ("permission is denied", "choose another folder or change its permissions"),
    errno.EPERM: ("permission is denied", "choose another folder or change its permissions"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOTDIR: ("a part of the path is a file", "choose another folder"),
    errno.EEXIST: ("a file of that name is in the way", "choose another folder"),
    errno.ENAMETOOLONG: ("the path is too long", "choose another folder"),
}


class StoreError(Exception):
    """The run directory cannot be read or written; the message is one sentence that says what to do."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the file system's refusals inside the block into a StoreError that names `path`."""
    try:
        yield
    except OSError as error:
        what, advice = _REASONS.get(error.errno or 0, (f"{error.strerror or error}", "choose another folder"))
        raise StoreError(f"cannot write {path}: {what}; nothing already built is lost: {advice}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one table that one shard is about to write."""

    table: str
    """Table name; failures go to "<stage>.failures"."""
    index: int
    """Number of the part."""
    data: pa.Table
    """The rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One written part as its manifest remembers it."""

    file: str
    """Path inside the run directory."""
    table: str
    """Table name."""
    rows: int
    """Number of rows."""
    digest: str
    """xxh3-128 of the file's bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one shard was made from and what it gave; it stands last, so a shard with a manifest is whole."""

    stage: str
    """Stage name."""
    shard: int
    """Number of the shard."""
    fingerprint: dict[str, Any]
    """Everything that decides the shard's bytes: inputs, configuration, versions."""
    outputs: tuple[FileRecord, ...]
    """All files of the shard."""
    counts: dict[str, Any]
    """in: rows read; out: rows a table; failures: by kind; skipped: by reason; seconds."""


class RunDirectory:
    """One build's folder; create it with `create`, hold `lock` while writing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    # --- the folder itself ------------------------------------------------------------------------------------------
    def create(self) -> None:
        """Make the folder if need be and prove that it can be written; raises StoreError, also for a foreign folder."""
        probe = self.path / f".probe-{os.getpid()}.tmp"
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            try:
                probe.write_bytes(b"x")
            finally:
                probe.unlink(missing_ok=True)

    def _refuse_foreign(self) -> None:
        """A folder with other people's files in it stays as it is: a build would write, rename and remove there."""
        found = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith("."))
        ours = any((self.path / name).exists() for name in (".lock", "run.json")) or next(
            self.path.glob("*/part-?????.json"), None
        )
        if not ours and set(found) - {"lost+found"}:
            raise StoreError(
                f"{self.path} is no run directory but holds {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}: "
                "choose an empty or a new folder"
            )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against other builds; raises StoreError at once if another build has it."""
        path = self.path / ".lock"
        with explained(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(handle, 20).decode() or "unknown"
                raise StoreError(
                    f"another build (process {holder}) is running in {self.path}: wait for it or choose another folder"
                ) from error
            with explained(path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def clean(self) -> int:
        """Remove the temporary files of a killed build; returns how many there were. Needs the lock."""
        left = sorted([*self.path.glob(".*.tmp"), *self.path.glob("*/.*.tmp")])
        for path in left:
            with explained(path):
                path.unlink(missing_ok=True)
        return len(left)

    # --- reading ----------------------------------------------------------------------------------------------------
    def tables(self) -> list[str]:
        """Names of all tables that have a part, sorted; failures included."""
        return sorted({path.parent.name for path in self.path.glob("*/part-?????.parquet")})

    def parts(self, table: str) -> list[Path]:
        """Parquet files of a table in order; empty if it does not exist."""
        return sorted((self.path / table).glob("part-?????.parquet"))

    def count(self, table: str) -> int:
        """Number of stored rows of a table, from the metadata alone."""
        return sum(_metadata(path).num_rows for path in self.parts(table))

    def read_arrow(self, table: str) -> pa.Table | None:
        """A whole table in Arrow form, keys repeated by another part dropped; None if it has no part."""
        return read_parts(self.parts(table))

    def read_table(self, table: str) -> list[Any]:
        """All rows of a table in stored order, decoded; an absent table has none."""
        data = self.read_arrow(table)
        return [] if data is None else from_table(data, row_type_of(data.schema))

    def read_column(self, table: str, column: str) -> list[Any]:
        """Values of one column of all parts of a table, without reading the others (repeated keys are not dropped)."""
        values: list[Any] = []
        for path in self.parts(table):
            with opened(path) as file:
                values += file.read(columns=[column])[column].to_pylist()
        return values

    def iter_rows(self, table: str) -> Iterator[Any]:
        """Rows of a table one by one, holding one row group at a time (repeated keys are not dropped)."""
        for path in self.parts(table):
            with opened(path) as file:
                for group in range(file.num_row_groups):
                    data = file.read_row_group(group)
                    yield from from_table(data, row_type_of(data.schema))

    # --- writing ----------------------------------------------------------------------------------------------------
    def write_parts(self, parts: Sequence[Part], on_written: Callable[[], None] = lambda: None) -> list[FileRecord]:
        """Write parts under temporary names, call `on_written`, then give them their names; returns their records."""
        staged: list[tuple[Path, FileRecord]] = []
        for part in parts:
            name = f"{part.table}/part-{part.index:05d}.parquet"
            blob = parquet_bytes(part.data)
            path = self.path / name
            _stage(path, blob)
            staged.append((path, _record(name, part.table, part.data.num_rows, blob)))
        on_written()
        for path, _ in staged:
            _publish(path)
        for folder in dict.fromkeys(path.parent for path, _ in staged):
            _sync_folder(folder)
        return [record for _, record in staged]

    def write_json(self, name: str, value: Any) -> None:
        """Write one JSON document atomically under the run directory."""
        path = self.path / name
        _stage(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())
        _publish(path)
        _sync_folder(path.parent)

    def read_json(self, name: str) -> Any | None:
        """A JSON document of the run directory; None if absent, StoreError if it is none."""
        path = self.path / name
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is half-written or damaged ({error}): delete it and build again") from error
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read ({error.strerror}): repair or delete it and build again"
            ) from error

    # --- manifests --------------------------------------------------------------------------------------------------
    def manifest_path(self, stage: str, shard: int) -> Path:
        """Where the manifest of a shard stands."""
        return self.path / stage / f"part-{shard:05d}.json"

    def manifest_shards(self, stage: str) -> list[int]:
        """Numbers of the shards of a stage that have a manifest, ascending."""
        return sorted(int(path.stem[5:]) for path in (self.path / stage).glob("part-?????.json"))

    def write_manifest(self, manifest: Manifest) -> None:
        """Write a shard's manifest: from now on the shard counts as done."""
        body = asdict(manifest)
        self.write_json(f"{manifest.stage}/part-{manifest.shard:05d}.json", body | {"digest": _json_digest(body)})

    def read_manifest(self, stage: str, shard: int) -> Manifest | None:
        """The manifest of a shard; None if absent; StoreError if it is half-written or not what was written."""
        name = f"{stage}/part-{shard:05d}.json"
        raw = self.read_json(name)
        if raw is None:
            return None
        try:
            if raw.pop("digest") != _json_digest(raw):
                raise StoreError(f"{self.path / name} is damaged, by its own digest: delete it and build again")
            outputs = tuple(FileRecord(**item) for item in raw.pop("outputs"))
            return Manifest(**raw, outputs=outputs)
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path / name} is no manifest of this version: delete it and build again") from error

    def damage(self, manifest: Manifest) -> dict[str, str]:
        """Files of a shard that are not what its manifest says: path -> what is wrong, empty if all is well."""
        found = {}
        for record in manifest.outputs:
            path = self.path / record.file
            if not path.exists():
                found[record.file] = "is missing"
            elif not path.is_file():
                found[record.file] = "is no file"
            elif file_digest(path) != record.digest:
                found[record.file] = "is damaged: its digest is not the manifest's"
        return found

    def move_aside(self, file: str) -> str:
        """Rename a damaged file to "<name>.damaged" and return that name; an absent file is left alone."""
        path = self.path / file
        with explained(path), contextlib.suppress(FileNotFoundError):
            os.replace(path, path.with_name(path.name + ".damaged"))
        return file + ".damaged"

    def drop_shard(self, stage: str, shard: int) -> None:
        """Forget that a shard was done, before its files are replaced."""
        path = self.manifest_path(stage, shard)
        with explained(path):
            path.unlink(missing_ok=True)

    def prune(self, tables: Sequence[str], keep: set[str]) -> list[str]:
        """Remove parts and manifests of the given tables whose path is not in `keep`; returns what was removed."""
        gone = []
        for table in tables:
            for path in sorted((self.path / table).glob("part-*")):
                name = f"{table}/{path.name}"
                if _PART.fullmatch(path.name) and name not in keep:
                    with explained(path):
                        path.unlink()
                    gone.append(name)
        return gone


# --- parts ----------------------------------------------------------------------------------------------------------
def read_parts(paths: Sequence[Path]) -> pa.Table | None:
    """Some parts of one table as one Arrow table without repeated keys; None for no part; StoreError if unreadable."""
    if not paths:
        return None
    data = pa.concat_tables([_read(path) for path in paths])
    return data if len(paths) == 1 else without_repeats(data, row_type_of(data.schema))


def read_range(path: Path, start: int, stop: int) -> pa.Table:
    """Rows start..stop of one part, reading only the row groups that hold them."""
    with opened(path) as file:
        pieces, first = [], 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                pieces.append(file.read_row_group(group).slice(low, high - low))
            first += size
        return pa.concat_tables(pieces) if pieces else file.schema_arrow.empty_table()


def file_digest(path: Path) -> str:
    """xxh3-128 of a file's bytes, 32 hex digits; StoreError if it cannot be read."""
    digest = xxhash.xxh3_128()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): repair or delete it and build again") from error
    return str(digest.hexdigest())


def _json_digest(value: Any) -> str:
    """xxh3-128 of a document's JSON form."""
    return str(xxhash.xxh3_128_hexdigest(json.dumps(value, sort_keys=True).encode()))


def _record(name: str, table: str, rows: int, blob: bytes) -> FileRecord:
    return FileRecord(file=name, table=table, rows=rows, digest=str(xxhash.xxh3_128_hexdigest(blob)))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """A part open for reading; StoreError if it is not readable Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path} is not readable Parquet ({reason}): run the build again, it is made anew") from error


def _read(path: Path) -> pa.Table:
    with opened(path) as file:
        return file.read()


def _metadata(path: Path) -> pq.FileMetaData:
    with opened(path) as file:
        return file.metadata


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _stage(path: Path, blob: bytes) -> None:
    """Write a file's bytes under its temporary name and force them to disk."""
    temporary = _temporary(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(blob)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def _publish(path: Path) -> None:
    with explained(path):
        os.replace(_temporary(path), path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
