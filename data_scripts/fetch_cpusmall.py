"""Fetch the data set cpusmall; ``python data_scripts/fetch_cpusmall.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("cpusmall"))
