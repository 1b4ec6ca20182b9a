"""`python -m auglag.cli`."""

from auglag.cli import main

main()
