"""The whole story on data that everybody has; `dptransfer demo` runs it."""
