"""The command line: `twice`, or `python -m twice`. This file loads nothing: Ctrl-C while the rest is loaded ends in a
sentence, too."""

import sys


def main() -> None:
    try:
        from twice.cli.main import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("interrupted before anything was started. Run it again.\n")
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
