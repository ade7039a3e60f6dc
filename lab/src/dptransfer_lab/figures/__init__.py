"""The figures of a report: records in, a drawing and its caption out."""
