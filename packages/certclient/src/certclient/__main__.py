"""`python -m certclient`."""

from certclient._entry import main

main()
