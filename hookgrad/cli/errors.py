"""What a command raises when it cannot do what it was asked."""


class CommandError(Exception):
    """Ends the command with this message and exit code 2: a wrong argument, or something that is not installed."""
