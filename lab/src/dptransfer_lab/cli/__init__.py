"""`dptransfer bench`, the command that the laboratory adds."""
