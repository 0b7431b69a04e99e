from .files import (
    find_traces as find_traces,
    state_of as state_of,
)
from .gpus import Gpus as Gpus
from .importing import import_traces as import_traces
from .loading import (
    load as load,
    missing_ranks as missing_ranks,
    read_manifest as read_manifest,
)
from .options import (
    KernelClasses as KernelClasses,
    Progress as Progress,
)
from .remote import (
    is_remote as is_remote,
    shown as shown,
)
from .remote_runs import (
    store_run as store_run,
    written_here as written_here,
)
from .signatures import OpSignatures as OpSignatures
from .sources import Source as Source
