"""What a client with bundles starts: the server, for the folder that was chosen at the installation."""

import sys

from kbhub.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["serve", "--connect", *sys.argv[1:]]))
