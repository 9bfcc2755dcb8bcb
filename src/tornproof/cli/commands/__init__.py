"""One module for each command: it parses options and prints results, the work is done by other packages."""
