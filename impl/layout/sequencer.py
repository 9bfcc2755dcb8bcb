"""The byte layout of `txn_seq/_txnlog`, in which the sequencer of a write-ahead log numbers its transactions."""

from tornproof.impl.layout.record import I64, U32, Record, layout_of, meaning


@layout_of(title="Sequencer log header", size_bytes=12, source="constants of TableTransactionLogFile in QuestDB 9.3.4")
class SequencerHeader(Record):
    """Start of the log; what follows is not read here."""

    format_version: U32 = meaning("version of the format")
    last_transaction: I64 = meaning("last transaction that was acknowledged")
