"""The `hotline` command, also run by `python -m hotline_analysis`."""

import os
import signal


def main() -> None:
    """Run the command line; the entry point of `hotline`."""
    # Until the imports are done, Ctrl-C exits at once: there is no work to clean up yet.
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from hotline_analysis.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
