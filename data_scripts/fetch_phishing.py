"""Fetch the data set phishing; ``python data_scripts/fetch_phishing.py --help`` lists the options."""

import sys

from _fetching import main

if __name__ == "__main__":
    sys.exit(main("phishing"))
