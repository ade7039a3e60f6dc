"""`dptransfer bench` and `dptransfer demo`, the commands that the laboratory adds."""
