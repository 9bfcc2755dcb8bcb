"""`inspect`: modules that make the JSON document of each kind of file, and modules that print any document."""
