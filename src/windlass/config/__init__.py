"""The daemon's configuration: flags before environment before file before defaults.

    file          windlass.yaml: `lease: {duration_s: 15}`
    environment   WINDLASS_LEASE_DURATION_S=15
    flags         --lease-duration-s 15, handed over as {"lease.duration_s": 15}

An unknown key, or a value of another type, is refused in one sentence that says where it stands.
Belongs here: the keys, their defaults and reading them. Does not belong here: acting on them. It
opens the one file that it is told, and nothing else.

    schema           the keys of the configuration, their types, defaults and meanings
    job_kinds        the job kinds that users declare under `kinds:`
    strict_section   the base class of all sections
    read             reading and merging file, environment and flags
"""

from windlass.config.read import read_config
from windlass.config.schema import Config, Option, options

__all__ = ["Config", "Option", "options", "read_config"]
