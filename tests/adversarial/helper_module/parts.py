"""What the pass may not import, its helper module does."""

import os

PLACE = os
