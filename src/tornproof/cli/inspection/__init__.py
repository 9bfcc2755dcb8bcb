"""What `inspect` shows: for each kind of file a part that makes a document, and a part that prints it for people."""
