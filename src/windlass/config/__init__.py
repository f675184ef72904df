"""The daemon's configuration: flags before environment before file before defaults.

    file          windlass.yaml: `lease: {duration_s: 15}`
    environment   WINDLASS_LEASE_DURATION_S=15
    flags         --lease-duration-s 15, handed over as {"lease.duration_s": 15}

An unknown key, or a value of another kind, is refused in one sentence that says where it stands.
Here belong the keys (`words`), job kinds of users (`kinds`) and reading them (`read`); the only
file that is opened is the one that is named.
"""

from windlass.config.read import read_config
from windlass.config.schema import Config, Option, options

__all__ = ["Config", "Option", "options", "read_config"]
