"""`python -m wolfpack` is `wolfpack`."""

from wolfpack.cli import main

if __name__ == "__main__":
    main()
