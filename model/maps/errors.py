"""Error numbers that map operations return (include/uapi/asm-generic/errno-base.h and errno.h), as positive ints."""

ENOENT = 2
E2BIG = 7
ENOMEM = 12
EEXIST = 17
EINVAL = 22
ENOSPC = 28
EOPNOTSUPP = 95

NAMES = {
    ENOENT: "ENOENT",
    E2BIG: "E2BIG",
    ENOMEM: "ENOMEM",
    EEXIST: "EEXIST",
    EINVAL: "EINVAL",
    ENOSPC: "ENOSPC",
    EOPNOTSUPP: "EOPNOTSUPP",
}
