"""What explorers drive: a life on a storage, its commits, its reads, its recovery."""
