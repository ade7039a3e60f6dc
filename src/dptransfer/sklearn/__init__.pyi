from dptransfer.sklearn.classifier import PrivateClassifier as PrivateClassifier
from dptransfer.sklearn.classifier import SearchStopped as SearchStopped
from dptransfer.sklearn.pipeline import PrivatePipeline as PrivatePipeline
from dptransfer.sklearn.pipeline import make_private_pipeline as make_private_pipeline
from dptransfer.sklearn.search import PrivateSearch as PrivateSearch
