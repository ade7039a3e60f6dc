"""Methods whose teachers vote: PATE, Prom-PATE and Transfer-PATE."""
