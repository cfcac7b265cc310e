"""`python -m certclient`."""

from certclient._command import main

main()
