from dptransfer import accounting as accounting
from dptransfer import encoders as encoders
from dptransfer import errors as errors
from dptransfer import features as features
from dptransfer import methods as methods
from dptransfer import privacy as privacy
from dptransfer import testing as testing
from dptransfer._version import __version__ as __version__
from dptransfer.api.checkup import check as check
from dptransfer.api.fit import Fit as Fit
from dptransfer.api.fit import fit as fit
from dptransfer.api.fit import plan as plan
from dptransfer.api.requests import encode as encode
from dptransfer.api.requests import evaluate as evaluate
from dptransfer.api.source import Source as Source
from dptransfer.data import PrivateEmbeddings as PrivateEmbeddings
from dptransfer.data import PublicEmbeddings as PublicEmbeddings
from dptransfer.ledger import Ledger as Ledger
from dptransfer.methods.auto import Auto as Auto
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SecureNoise as SecureNoise
from dptransfer.noise import SeededNoise as SeededNoise
from dptransfer.privacy import Budget as Budget
from dptransfer.privacy import Guarantee as Guarantee
from dptransfer.privacy import Relation as Relation
from dptransfer.privacy import Unit as Unit
from dptransfer.release import PrivateClassifier as PrivateClassifier
from dptransfer.release import read_release

load = read_release
verify = verify_release
