"""The real thing: QuestDB's partition format as bytes on a Storage."""
