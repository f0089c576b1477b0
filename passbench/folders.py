"""Temporary folders that outlive no process: each is locked while its owner lives, and swept by the next if it is not.

    folder, hold = make_folder()                 # a private folder, held by a lock on the open descriptor `hold`
    sweep()                                      # removes folders whose holders are all gone; how many

A holder is any process that has the descriptor open; the kernel lets go of the lock when the last of them ends, however
it ends. Writes and removes below the temporary folder only, and only folders of this user that carry the marker.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "passbench-worker-"
MARKER = ".passbench"
_UNNAMED_S = 60.0
"""Seconds after which a folder that was never finished is taken for abandoned."""


def make_folder() -> tuple[Path, int]:
    """A private temporary folder and the descriptor that holds it; it gets its name only once it is locked."""
    unnamed = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    hold = os.open(unnamed, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (unnamed / MARKER).touch()
    return unnamed.rename(unnamed.with_name(unnamed.name[1:])), hold


def remove_folder(folder: Path) -> None:
    """Remove a folder made here, whatever is in it; anything else is left alone."""
    if (folder / MARKER).exists():
        shutil.rmtree(folder, ignore_errors=True)


def sweep(home: Path | None = None) -> int:
    """Remove what processes that were killed left behind; folders of living ones and of others are left alone."""
    place = home or Path(tempfile.gettempdir())
    named = [folder for folder in place.glob(f"{PREFIX}*") if (folder / MARKER).exists()]
    unnamed = [folder for folder in place.glob(f".{PREFIX}*") if _age(folder) > _UNNAMED_S]
    return sum(_remove_if_free(folder) for folder in [*named, *unnamed])


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def _remove_if_free(folder: Path) -> bool:
    """Whether nobody held the folder, which is then removed."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        with contextlib.suppress(OSError):
            if os.fstat(held).st_uid == os.getuid():
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                return True
        return False
    finally:
        os.close(held)
