"""What several test packages share: nasty rows, odd files, networks that mix pictures, methods that cheat."""
