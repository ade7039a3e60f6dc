"""Embeddings, labels, people and facts: types, and the .emb folder."""

from dptransfer.data.columns import Columns
from dptransfer.data.embeddings import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.examples import PrivateData, PublicData, content_digest, public_record
from dptransfer.data.facts import Facts
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.identity import EncoderIdentity, require_same_encoder
from dptransfer.data.imbalance import long_tail, long_tail_counts
from dptransfer.data.labels import Labelled
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.store import finish_shards, read_store, write_embeddings
from dptransfer.data.tables import LABEL_NAMES, ROW_NAMES, RawTable
from dptransfer.data.vocabulary import Vocabulary

__all__ = [
    "LABEL_NAMES",
    "ROW_NAMES",
    "Columns",
    "EncoderIdentity",
    "Facts",
    "GreyRange",
    "Labelled",
    "PrivateData",
    "PrivateEmbeddings",
    "PublicData",
    "PublicEmbeddings",
    "RawTable",
    "ShardedRows",
    "Vocabulary",
    "content_digest",
    "declared_range",
    "finish_shards",
    "long_tail",
    "long_tail_counts",
    "public_record",
    "read_store",
    "require_same_encoder",
    "write_embeddings",
]
