"""The command `hotline`, which `python -m hotline_analysis` is, too."""

import os
import signal


def main() -> None:
    """Run the command line; the entry point of `hotline`."""
    # Ctrl-C while python loads the command, and nothing is begun yet, just ends it.
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from hotline_analysis.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
