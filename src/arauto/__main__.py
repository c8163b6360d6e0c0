"""`python -m arauto` is the `arauto` command."""

from arauto.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
