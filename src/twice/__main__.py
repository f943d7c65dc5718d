"""`python -m twice` is the command line."""

from twice.cli.main import main

main()
