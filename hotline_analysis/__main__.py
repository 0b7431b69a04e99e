"""`python -m hotline_analysis` is `hotline`."""

from hotline_analysis.cli import main

if __name__ == "__main__":
    main()
