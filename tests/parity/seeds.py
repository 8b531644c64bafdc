"""The seed of generated cases: given by GLOBAL_DISPATCHER_TEST_SEED, or the same every time; always told."""

import os

SEED = os.environ.get("GLOBAL_DISPATCHER_TEST_SEED", "parity")
