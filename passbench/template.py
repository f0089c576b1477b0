"""The start of a template process: importing torch takes seconds, and an orchestrator that ends meanwhile is noticed.

    python -m passbench.template FD HOLD         # started by `passbench.isolate` only

FD is the socket to the orchestrator, HOLD the descriptor that holds the temporary folder, which is the current one.
"""

import gc
import os
import select
import sys
import threading
from pathlib import Path
from typing import NoReturn

from passbench.folders import remove_folder

_POLL_MS = 200


def leave_if_alone(link: int, folder: Path, ready: threading.Event) -> None:
    """End this process with its folder when the other side of the link is gone, until it is ready to notice itself."""
    poll = select.poll()
    poll.register(link, select.POLLRDHUP)
    while not ready.is_set():
        if poll.poll(_POLL_MS):
            remove_folder(folder)
            os._exit(1)


def main() -> NoReturn:
    """Watch the link while the worker's modules are imported, then be the template."""
    link, hold, folder = int(sys.argv[1]), int(sys.argv[2]), Path.cwd()
    ready = threading.Event()
    watch = threading.Thread(target=leave_if_alone, args=(link, folder, ready))
    watch.start()
    gc.disable()  # nothing that imports make is garbage; `prepare` collects what there is
    from passbench.worker import prepare, serve

    prepare()
    ready.set()
    watch.join()  # a process that forks has one thread
    serve(link, hold, folder)


if __name__ == "__main__":
    main()
