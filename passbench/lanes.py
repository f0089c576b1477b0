"""Jobs side by side in threads, each lane with a worker of its own, and a clock that runs alone.

    for job, result in side_by_side(jobs, Worker, lanes=2):      # in the order in which they are done
    with quiet.working(): ...                                    # many at once
        with quiet.alone(): ...                                  # one, while no other works

The work itself is done by other processes, so threads are enough. One lane runs in the caller's thread. Reads and
writes nothing.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from typing import Protocol, TypeVar

from passbench.grading import Case
from passbench.isolate import Template, TemplateDied
from schemas.rows import TaskVariant, Verdict

TRIES = 2
"""How often a variant is graded in which the harness stumbles."""

Job = TypeVar("Job")
Result = TypeVar("Result")
J = TypeVar("J", contravariant=True)
R = TypeVar("R", covariant=True)


class Worker(Protocol[J, R]):
    """What a lane works with."""

    def do(self, job: J) -> R:
        """One job."""
        ...

    def close(self) -> None:
        """Let go of what the worker holds."""
        ...


def side_by_side(
    jobs: Sequence[Job], make: Callable[[], Worker[Job, Result]], lanes: int, stop: Callable[[], None]
) -> Iterator[tuple[Job, Result]]:
    """Every job with its result, as they are done; `stop` is called if the caller is interrupted, to end all lanes."""
    workers = [make() for _ in range(max(1, min(lanes, len(jobs))))]
    try:
        if len(workers) == 1:
            yield from ((job, workers[0].do(job)) for job in jobs)
        else:
            yield from _in_threads(jobs, workers, stop)
    finally:
        for worker in workers:
            worker.close()


def _in_threads(
    jobs: Sequence[Job], workers: Sequence[Worker[Job, Result]], stop: Callable[[], None]
) -> Iterator[tuple[Job, Result]]:
    free: SimpleQueue[Worker[Job, Result]] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def work(job: Job) -> tuple[Job, Result]:
        worker = free.get()
        try:
            return job, worker.do(job)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(max_workers=len(workers)) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


class Quiet:
    """Many may work at once; whoever works may ask to go on alone, and then waits until no other works."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.at_work, self.waiting, self.one_alone = 0, 0, False

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A share of the work; it begins when nobody is alone or waits to be."""
        with self.changed:
            self.changed.wait_for(lambda: not self.waiting and not self.one_alone)
            self.at_work += 1
        try:
            yield
        finally:
            with self.changed:
                self.at_work -= 1
                self.changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For one that works: the others have come to rest, and stay so until this is over."""
        with self.changed:
            self.at_work -= 1
            self.waiting += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.at_work and not self.one_alone)
            self.waiting -= 1
            self.one_alone = True
        try:
            yield
        finally:
            with self.changed:
                self.one_alone = False
                self.at_work += 1
                self.changed.notify_all()


class Processes(Protocol):
    """Where the lanes of one harness get their template from."""

    quiet: Quiet

    @property
    def template(self) -> Template:
        """The one at hand, or a new one."""
        ...

    def drop(self, template: Template) -> None:
        """Give up one that died."""
        ...


class Grader(Protocol):
    """Grades variants in the processes of one template."""

    template: Template

    def control(self, variant: TaskVariant, *, speed_measured: bool) -> None:
        """What a grading asks of the harness, without submitted code."""
        ...

    def grade(self, variant: TaskVariant, *, speed_measured: bool) -> Case:
        """The verdict on one."""
        ...

    def close(self) -> None:
        """End its processes."""
        ...


class Lane:
    """Grades variants one after the other; where the harness stumbles, once more, and then it is asked who is at fault.

    The runner's seam: whatever a grading raises, the variant gets a row and the next one is graded.
    """

    def __init__(self, processes: Processes, make: Callable[[Template], Grader], speed_measured: bool) -> None:
        self.processes, self.make, self.speed_measured = processes, make, speed_measured
        self.grader: Grader | None = None

    def do(self, variant: TaskVariant) -> Case:
        """The verdict on one variant: HARNESS_ERROR only if the harness fails without the submission as well."""
        said = ""
        for _ in range(TRIES):
            case, said = self.tried(lambda grader: grader.grade(variant, speed_measured=self.speed_measured))
            if case is not None and case.verdict is not Verdict.HARNESS_ERROR:
                return case
            said = case.detail if case is not None else said
        settled = Case()
        _, alone = self.tried(lambda grader: grader.control(variant, speed_measured=self.speed_measured))
        if alone:
            settled.fail(Verdict.HARNESS_ERROR, f"{alone}, also without the submission")
        else:
            settled.fail(Verdict.RUNTIME_ERROR, f"with this submission the harness met, {TRIES} times, {said}; "
                         "without it there is no such error")  # fmt: skip
        return settled

    def tried(self, work: Callable[[Grader], Result]) -> tuple[Result | None, str]:
        """What some work gives, or None and what it raised."""
        try:
            template = self.processes.template
            if self.grader is None or self.grader.template is not template:
                self.grader = self.make(template)
            with self.processes.quiet.working():
                return work(self.grader), ""
        except TemplateDied as error:
            self.processes.drop(template)
            return None, str(error)
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """End the reference process."""
        if self.grader is not None:
            self.grader.close()
