"""``python -m hookgrad``."""

import sys

from hookgrad.cli import main

sys.exit(main())
