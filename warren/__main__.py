"""The command line as `python -m warren`."""

from warren import main

if __name__ == "__main__":
    main()
