"""Embeddings and pictures, private and public: types, files, image and text lists."""

from dptransfer.data.decode import open_image
from dptransfer.data.embeddings import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.examples import PrivateData, PublicData, content_digest, public_record
from dptransfer.data.facts import Facts
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.identity import EncoderIdentity, require_same_encoder
from dptransfer.data.images import ImageList, find_images
from dptransfer.data.imbalance import long_tail, long_tail_counts
from dptransfer.data.labelled import Labelled
from dptransfer.data.load import STORED, read_private, read_public
from dptransfer.data.pictures import PrivateImages, PublicImages
from dptransfer.data.readers import read_table
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.data.store import finish_shards, read_store, write_embeddings
from dptransfer.data.table import LABEL_NAMES, ROW_NAMES, RawTable
from dptransfer.data.texts import TextList, find_texts
from dptransfer.data.vocabulary import Vocabulary

__all__ = [
    "LABEL_NAMES",
    "ROW_NAMES",
    "STORED",
    "EncoderIdentity",
    "Facts",
    "GreyRange",
    "ImageList",
    "Labelled",
    "PrivateData",
    "PrivateEmbeddings",
    "PrivateImages",
    "PublicData",
    "PublicEmbeddings",
    "PublicImages",
    "RawTable",
    "ShardedRows",
    "TextList",
    "Vocabulary",
    "content_digest",
    "declared_range",
    "find_images",
    "find_texts",
    "finish_shards",
    "long_tail",
    "long_tail_counts",
    "open_image",
    "public_record",
    "read_private",
    "read_public",
    "read_store",
    "read_table",
    "require_same_encoder",
    "write_embeddings",
]
