"""Methods that release a linear head on public features."""
