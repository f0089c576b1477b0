"""The stand-in Hub by hand: `python -m tests.hub --models 2000 --faults 0.05`, then use the HF_ENDPOINT it prints.

Base configurations are defaults of the installed transformers. GET /_counts tells the requests so far.
"""

import argparse
import time

from tests.hub.population import installed_bases, population
from tests.hub.server import HubServer, Settings

TYPES = (
    "bert", "gpt2", "llama", "roberta", "t5", "vit", "distilbert", "qwen2", "mistral", "electra", "deberta-v2",
    "wav2vec2", "clip", "albert", "bart", "whisper", "gemma", "phi3", "opt", "resnet", "convnext", "swin", "dinov2",
    "xlm-roberta",
)  # fmt: skip
"""Model types whose default configurations are the bases, the most used first."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the models that each kind of fault hits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page-size", type=int, default=1000)
    options = parser.parse_args()
    models = population(size=options.models, seed=options.seed, faults=options.faults, bases=installed_bases(TYPES))
    with HubServer(models, Settings(page_size=options.page_size)) as hub:
        print(f"export HF_ENDPOINT={hub.endpoint}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
