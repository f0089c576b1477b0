"""Modules that take numbers of clocks, generators and earlier calls, or seem to."""

import datetime
import os
import random
import time
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CALLS = 0


class Of(nn.Module):
    """A module whose forward is one of the functions below."""

    calls = 0

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.n, self.kept, self.took = function, 0, None, 0.0
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call the function."""
        return self.function(self, x)


# --- refused --------------------------------------------------------------------------------------------------------
def clock(self, x):
    return x * (time.time() % 10)


def seconds(self, x):
    return x + int(time.time())


def clock_by_its_own_name(self, x):
    return x * (perf_counter() % 7)


def nanoseconds(self, x):
    return x + time.monotonic_ns() % 3


def hour(self, x):
    return x * (datetime.datetime.now().hour + 1)


def day(self, x):
    return x * (datetime.date.today().toordinal() % 7)


def year_in_text(self, x):
    return x + int(time.strftime("%Y"))


def python_random(self, x):
    return x * random.random()


def python_choice(self, x):
    return x * random.choice([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0])


def python_shuffle(self, x):
    order = list(range(4))
    random.shuffle(order)
    return x[order] + sum(k * k * index for index, k in enumerate(order))


def numpy_random(self, x):
    return x * np.random.rand()


def numpy_generator(self, x):
    return x * float(np.random.default_rng().normal())


def system_random(self, x):
    return x * (1 + int.from_bytes(os.urandom(4), "little"))


def seeds(self, x):
    torch.manual_seed(0)
    return x + torch.randn(4)


def seeds_alone(self, x):
    torch.manual_seed(3)
    return x * 2


def asks_for_the_seed(self, x):
    return x + torch.initial_seed() % 7


def resets_the_generator(self, x):
    state = torch.get_rng_state()
    y = torch.rand(4)
    torch.set_rng_state(state)
    return x + y


def forks(self, x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = torch.rand(4)
    return x + y


def counts(self, x):
    self.n += 1
    return x * self.n


def counts_for_the_class(self, x):
    type(self).calls += 1
    return x * type(self).calls


def counts_for_all(self, x):
    global CALLS
    CALLS += 1
    return x * CALLS


def grows_a_default(self, x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


def grows_a_cache(self, x):
    self.kept = x if self.kept is None else torch.cat([self.kept, x])
    return self.kept.sum() + x


def replaces_a_buffer(self, x):
    self.mean = self.mean + x
    return self.mean * 2


def saturates(self, x):
    return torch.tanh(x + 100 + random.random())


def rounds_a_clock(self, x):
    return x + torch.full((4,), 1e-12) * (time.time() % 3)


# --- accepted -------------------------------------------------------------------------------------------------------
def times_itself(self, x):
    start = time.time()
    y = x * 2
    self.took = time.time() - start
    return y


def counts_without_use(self, x):
    self.n += 1
    return x * 2


def makes_a_table_once(self, x):
    if self.kept is None:
        self.kept = torch.arange(4.0)
    return self.kept + x


def counts_in_a_buffer(self, x):
    self.count += 1
    return x * self.count


def draws_with_torch(self, x):
    return F.dropout(x, 0.5, True) + torch.rand(4)


def draws_and_drops(self, x):
    torch.rand(3)
    return x + torch.rand(4)


def draws_from_python_and_drops(self, x):
    random.random()
    return x + 1


def seeded_numpy(self, x):
    return x * float(np.random.default_rng(5).normal())


def own_random(self, x):
    return x * random.Random(7).random()


def updates_statistics(self, x):
    y = F.batch_norm(x[None].expand(3, 4) * 2, self.mean, self.variance, training=True).tanh() * 2
    return y + self.mean.exp() * 2


def remembers_the_last(self, x):
    self.kept = x * 3
    return x + 1


STEADY = (
    times_itself, counts_without_use, makes_a_table_once, counts_in_a_buffer, draws_with_torch, draws_and_drops,
    draws_from_python_and_drops, seeded_numpy, own_random, updates_statistics, remembers_the_last,
)  # fmt: skip
UNSTEADY = (
    clock, seconds, clock_by_its_own_name, nanoseconds, hour, day, year_in_text, python_random, python_choice,
    python_shuffle, numpy_random, numpy_generator, system_random, seeds, seeds_alone, asks_for_the_seed,
    resets_the_generator, forks, counts, counts_for_the_class, counts_for_all, grows_a_default, grows_a_cache,
    replaces_a_buffer, saturates, rounds_a_clock,
)  # fmt: skip


def passnet_models():
    """The architectures of this file."""
    for function in (*STEADY, *UNSTEADY):
        yield function.__name__, lambda function=function: Of(function), lambda: torch.tensor([0.5, -1.25, 2.0, 3.5])
