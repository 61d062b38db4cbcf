"""The ``hookgrad`` command. ``python -m hookgrad`` is the same."""

import argparse
import os
import sys
from pathlib import Path

from hookgrad.cli.errors import CommandError
from hookgrad.version import __version__

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE


def _whole_number(least):
    """An argument type: a whole number from `least` on."""

    def parse(text):
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number, {least} or more")
        return number

    return parse


def _demo(args):
    from hookgrad.cli import demo

    demo.run(args.epochs, args.seed, args.out)


def _info(args):
    from hookgrad.cli import info

    info.run(args.json)


def _parser():
    parser = argparse.ArgumentParser(
        prog="hookgrad",
        description="Define-by-run autograd for NumPy whose centre is gradient hooks.",
        epilog="`hookgrad COMMAND --help` tells more about a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hookgrad {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", title="commands")

    demo = commands.add_parser(
        "demo",
        help="train a small network on handwritten digits, with gradient hooks at work",
        description=(
            "Train a small network on scikit-learn's bundled handwritten digits (1,797 images of 8 x 8 pixels) with "
            "hooks at work: gradient hooks record each gradient's norm and clip it, and a post-accumulate hook applies "
            "the optimizer step, so that backward() alone trains. Prints the held-out accuracy, the time and a table "
            "of gradient norms by layer, and writes a picture of the gradient flow. Takes a few seconds."
        ),
        epilog='Needs scikit-learn, matplotlib and tqdm: pip install "hookgrad[demo]".',
        allow_abbrev=False,
    )
    demo.add_argument(
        "--epochs",
        type=_whole_number(1),
        default=40,
        metavar="N",
        help="how often to go through the training images (default: %(default)s)",
    )
    demo.add_argument(
        "--seed",
        type=_whole_number(0),
        default=0,
        metavar="N",
        help="decides the held-out images, the first weights and the order; the same seed gives the same result "
        "(default: %(default)s)",
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("hookgrad-demo"),
        metavar="DIR",
        help="the folder to write gradient_flow.png to; made if it is not there (default: ./%(default)s)",
    )
    demo.set_defaults(run=_demo)

    info = commands.add_parser(
        "info",
        help="print versions, BLAS, the inner loops found and how hookgrad was built",
        description=(
            "Print the versions of hookgrad and what it runs on, NumPy's BLAS and its threads, the inner loops of "
            "NumPy that hookgrad calls directly, whether the build is traced, and the gradient settings. For bug "
            "reports, and to see what a measurement was made with."
        ),
        allow_abbrev=False,
    )
    info.add_argument("--json", action="store_true", help="print it as JSON, for programs")
    info.set_defaults(run=_info)
    return parser


def main(argv=None):
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        The arguments; by default the process's.

    Returns
    -------
    int
        The exit code: 0 for success, 2 for a wrong argument or a missing package, 130 after Ctrl-C. As always with
        argparse, ``--help``, ``--version`` and arguments that do not parse raise SystemExit instead.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.run is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        args.run(args)
        sys.stdout.flush()
    except CommandError as error:
        print(f"hookgrad {args.command}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nhookgrad {args.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has closed it (`hookgrad info | head`). Nothing more can be written; keep the
        # interpreter from trying to at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return 0
