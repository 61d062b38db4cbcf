"""Checks that the packages of the ``demo`` extra are there, before any work is done."""

import importlib

from hookgrad.cli.errors import CommandError

#: Package to import, and the name it is installed by.
DEMO = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "threadpoolctl": "threadpoolctl", "tqdm": "tqdm"}


def require(packages, extra):
    """Import packages of an extra.

    Raises
    ------
    CommandError
        Some are not installed, or are and cannot be imported; one message for all of them.
    """
    missing, broken = [], []
    for package, distribution in packages.items():
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package:
                broken.append(f"{distribution} ({error})")
            else:
                missing.append(distribution)
        except ImportError as error:
            broken.append(f"{distribution} ({error})")
    if missing or broken:
        words = []
        if missing:
            words.append(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed")
        if broken:
            words.append(f"{' and '.join(broken)} cannot be imported")
        raise CommandError(f'{"; ".join(words)}; install what is needed with: pip install "hookgrad[{extra}]"')
