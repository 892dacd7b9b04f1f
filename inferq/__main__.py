"""`python -m inferq` is `inferq`."""

from inferq.cli.app import main

main()
