"""`python -m dptransfer` is the `dptransfer` command."""

from dptransfer.cli.main import run

if __name__ == "__main__":
    run()
