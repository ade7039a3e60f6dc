"""Networks that methods look inside of: their parts, their gradients and their training; needs torch."""
