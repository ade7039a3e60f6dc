"""The command line; `dptransfer.cli.main` assembles it from one file per command.

Nothing here imports numpy, scipy or torch when it is loaded, so that `dptransfer --help` answers at once.
"""
