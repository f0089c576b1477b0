"""The run directory: whole files or none, damage found, refusals explained, one build at a time."""

import fcntl
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.parts import parquet_bytes, row_type_of, sorted_rows, without_repeats
from data.store import Manifest, Part, RunDirectory, StoreError, read_range
from schemas.arrow import from_table, to_table
from schemas.rows import ConfigLink, Failure, FailureKind, Text

pytestmark = pytest.mark.plain


def links(*names: str) -> pa.Table:
    return to_table([ConfigLink(model=name, architecture=name.upper()) for name in names], ConfigLink)


def failures(count: int, size: int = 4000) -> pa.Table:
    rows = [
        Failure(
            stage="s", item=f"{i:06d}", name="n", kind=FailureKind.CRASH, exception="", message="",
            detail=Text(os.urandom(size // 2).hex()),
        )
        for i in range(count)
    ]  # fmt: skip
    return to_table(rows, Failure)


def write(run: RunDirectory, table: str, index: int, data: pa.Table) -> None:
    run.write_parts([Part(table=table, index=index, data=data)])


def manifest(run: RunDirectory, *names: str) -> Manifest:
    records = run.write_parts([Part(table="links", index=0, data=links(*names))])
    found = Manifest(stage="links", shard=0, fingerprint={"version": 1}, outputs=tuple(records), counts={"in": 2})
    run.write_manifest(found)
    return found


def test_rows_come_back_in_order_of_parts(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run, "links", 1, links("c"))
    write(run, "links", 0, links("a", "b"))
    assert [row.model for row in run.read_table("links")] == ["a", "b", "c"]
    assert [row.model for row in run.iter_rows("links")] == ["a", "b", "c"]
    assert run.count("links") == 3
    assert run.tables() == ["links"]


def test_an_absent_table_has_no_rows(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert run.read_table("graphs") == []
    assert run.count("graphs") == 0


def test_a_key_that_two_parts_hold_is_read_once(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run, "links", 0, links("a", "b"))
    write(run, "links", 1, links("b", "c"))
    assert [row.model for row in run.read_table("links")] == ["a", "b", "c"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=4), max_size=12), st.randoms(use_true_random=False))
def test_bytes_do_not_depend_on_the_order_of_rows(names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one = parquet_bytes(sorted_rows(links(*names), ConfigLink))
    two = parquet_bytes(sorted_rows(links(*shuffled), ConfigLink))
    assert one == two


def test_two_different_rows_of_one_key_are_refused() -> None:
    rows = [
        Failure(
            stage="s", item="i", name=name, kind=FailureKind.CRASH, exception="", message="", detail=Text("")
        ) for name in ("x", "y")
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="two different rows of Failure"):
        sorted_rows(to_table(rows, Failure), Failure)


def test_ranked_rows_keep_their_order() -> None:
    data = without_repeats(links("c", "a", "c", "b"), ConfigLink)
    assert [row.model for row in from_table(data, ConfigLink)] == ["c", "a", "b"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40))
def test_a_range_is_the_same_as_slicing_the_whole(start: int, stop: int) -> None:
    data = links(*[f"{i:03d}" for i in range(30)])
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        path = Path(file.name)
        path.write_bytes(parquet_bytes(data))
        found = from_table(read_range(path, start, stop), ConfigLink)
    assert found == from_table(data, ConfigLink)[start:stop]


def test_row_groups_are_cut_by_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("data.parts.ROW_GROUP_BYTES", 8000)
    path = tmp_path / "part.parquet"
    data = failures(9)
    path.write_bytes(parquet_bytes(data))
    assert pq.ParquetFile(path).num_row_groups == 9
    assert read_range(path, 3, 6).to_pylist() == data.slice(3, 3).to_pylist()


def test_the_row_type_stands_in_the_file(tmp_path: Path) -> None:
    assert row_type_of(links("a").schema) is ConfigLink
    with pytest.raises(ValueError, match="unknown row type"):
        row_type_of(pa.schema([("x", pa.int64())]))


# --- damage ---------------------------------------------------------------------------------------------------------
def test_a_manifest_comes_back_and_a_whole_shard_has_no_damage(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    made = manifest(run, "a")
    assert run.read_manifest("links", 0) == made
    assert run.damage(made) == {}
    assert run.read_manifest("links", 1) is None


@pytest.mark.parametrize("position", [0, 10, -1])
def test_one_flipped_byte_is_found_and_moved_aside(tmp_path: Path, position: int) -> None:
    run = RunDirectory(tmp_path)
    made = manifest(run, "a", "b")
    path = tmp_path / "links/part-00000.parquet"
    blob = bytearray(path.read_bytes())
    blob[position] ^= 1
    path.write_bytes(blob)
    assert run.damage(made) == {"links/part-00000.parquet": "is damaged: its digest is not the manifest's"}
    aside = run.move_aside("links/part-00000.parquet")
    assert (tmp_path / aside).read_bytes() == bytes(blob)
    assert run.parts("links") == []


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    made = manifest(run, "a")
    (tmp_path / "links/part-00000.parquet").unlink()
    assert run.damage(made) == {"links/part-00000.parquet": "is missing"}


@pytest.mark.parametrize("text", ["", "{", '{"stage": "links"}', "[]", '{"outputs": [{"x": 1}]}'])
def test_a_half_written_manifest_is_one_clear_line(tmp_path: Path, text: str) -> None:
    run = RunDirectory(tmp_path)
    manifest(run, "a")
    (tmp_path / "links/part-00000.json").write_text(text)
    with pytest.raises(StoreError, match=r"part-00000\.json .*delete it and build again"):
        run.read_manifest("links", 0)


def test_unreadable_parquet_is_one_clear_line(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run, "links", 0, links("a"))
    (tmp_path / "links/part-00000.parquet").write_bytes(b"no parquet")
    with pytest.raises(StoreError, match=r"not readable Parquet .*run the build again"):
        run.read_table("links")


# --- refusals -------------------------------------------------------------------------------------------------------
def test_a_file_in_the_way_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="choose another folder"):
        RunDirectory(tmp_path / "file").create()
    with pytest.raises(StoreError, match="choose another folder"):
        RunDirectory(tmp_path / "file" / "below").create()


def _write_with_little_room(path: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    run = RunDirectory(path)
    try:
        write(run, "failures", 1, failures(100))
    except StoreError as error:
        os.write(2, str(error).encode())
        os._exit(42)
    os._exit(0)


def test_a_full_disk_is_explained_and_loses_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory(tmp_path)
    write(run, "failures", 0, failures(2))
    before = (tmp_path / "failures/part-00000.parquet").read_bytes()
    child = multiprocessing.get_context("fork").Process(target=_write_with_little_room, args=(str(tmp_path),))
    child.start()
    child.join(30)
    assert child.exitcode == 42
    assert "nothing already built is lost" in capfd.readouterr().err
    assert sorted(os.listdir(tmp_path / "failures")) == ["part-00000.parquet"]
    assert (tmp_path / "failures/part-00000.parquet").read_bytes() == before


TMPFS = """
import os, sys
from pathlib import Path
from data.store import Part, RunDirectory, StoreError
from schemas.arrow import to_table
from schemas.rows import Failure, FailureKind, Text
run = RunDirectory(sys.argv[1])
rows = [Failure(stage="s", item=str(i), name="n", kind=FailureKind.CRASH, exception="", message="",
                detail=Text(os.urandom(2000).hex())) for i in range(400)]
try:
    run.write_parts([Part(table="t", index=0, data=to_table(rows, Failure))])
except StoreError as error:
    print(error)
"""


def test_a_truly_full_file_system_is_explained(tmp_path: Path) -> None:
    inside = tmp_path / "disk"
    inside.mkdir()
    command = f"mount -t tmpfs -o size=256k none {inside} && {sys.executable} -c '{TMPFS}' {inside}; ls -A {inside}/t"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, timeout=60)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a small file system")
    assert "the disk is full" in done.stdout
    assert ".tmp" not in done.stdout


# --- temporaries, lock, pruning -------------------------------------------------------------------------------------
def test_clean_removes_the_temporaries_of_a_killed_build_only(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run, "links", 0, links("a"))
    (tmp_path / "links/.part-00001.parquet.tmp").write_bytes(b"half")
    assert run.clean() == 1
    assert sorted(os.listdir(tmp_path / "links")) == ["part-00000.parquet"]


def test_nothing_has_its_name_before_everything_is_on_disk(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    seen: list[list[str]] = []
    parts = [Part(table="links", index=i, data=links(str(i))) for i in range(3)]
    run.write_parts(parts, lambda: seen.append([path.name for path in run.parts("links")]))
    assert seen == [[]]
    assert len(run.parts("links")) == 3


def test_two_builds_never_share_a_directory(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with run.lock(), pytest.raises(StoreError, match=f"another build .process {os.getpid()}. is running"), run.lock():
        pass
    with run.lock():
        handle = os.open(tmp_path / ".lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)


def test_prune_keeps_what_it_is_told_and_what_is_no_part(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for index in range(3):
        write(run, "links", index, links(str(index)))
    (tmp_path / "links/part-00002.parquet.damaged").write_bytes(b"kept for a person")
    gone = run.prune(["links"], {"links/part-00000.parquet"})
    assert gone == ["links/part-00001.parquet", "links/part-00002.parquet"]
    assert sorted(os.listdir(tmp_path / "links")) == ["part-00000.parquet", "part-00002.parquet.damaged"]
