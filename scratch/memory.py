"""Keep freed memory in the process: large fresh arrays then come without page faults."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""glibc's names for the two options, from its malloc.h."""


def keep_freed(limit=1 << 30):
    """Ask the allocator to keep up to `limit` bytes of freed memory for the next arrays; True where it can.

    A block's forward and backward make and free some hundred megabytes of arrays. By default glibc hands large ones
    back to the system, and gets them again page by page: on the machines this was measured on, every fifth second of a
    block went there. What is kept is not lost, the process only looks larger. It holds for the whole process, so the
    library never does it by itself; training and the benchmarks do. Elsewhere than on glibc nothing is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no libc to ask, or one without this call
        return False
    limit = min(limit, (1 << 31) - 1)
    # Older versions take no more than 32 MB here. The trim comes second: alone it would make every array a mapping.
    mapped = any(mallopt(M_MMAP_THRESHOLD, ctypes.c_int(size)) for size in (limit, min(limit, 32 << 20)))
    return bool(mapped and mallopt(M_TRIM_THRESHOLD, ctypes.c_int(limit)))
