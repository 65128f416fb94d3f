"""Paths of the library and of recordings: paths that LD_PRELOAD accepts, and directories with the right owner."""
from __future__ import annotations

import os
import stat
from pathlib import Path

# LD_PRELOAD is split at blanks and colons, and `$ORIGIN` and the like are replaced.
AWKWARD = " :$\t\n\\;"


def _is_safe(folder: int, above: bool) -> bool:
    """Whether no other user can create entries in the directory; with ABOVE, whether no other user can rename them."""
    status = os.fstat(folder)
    shared = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if not above:
        return status.st_uid == os.geteuid() and not shared
    return status.st_uid in (0, os.geteuid()) and (not shared or bool(status.st_mode & stat.S_ISVTX))


def _enter(above: int, name: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=above)
    except FileExistsError:
        pass
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    if not _is_safe(folder, False):
        os.close(folder)
        raise PermissionError(name)
    return folder


def _hash(text: bytes) -> int:
    value = 14695981039346656037  # FNV-1a, as `piano record` has it
    for byte in text:
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return value


def _put_link(folder: int, name: str, target: str) -> None:
    try:
        if os.readlink(name, dir_fd=folder) == target:
            return
    except OSError:
        pass
    other = f"{name}.{os.getpid()}"
    os.symlink(target, other, dir_fd=folder)
    os.rename(other, name, src_dir_fd=folder, dst_dir_fd=folder)


def _link_below(place: str, library: str) -> str:
    user, name = f"piano-{os.geteuid()}", f"{_hash(os.fsencode(os.path.dirname(library))):016x}"
    opened = [os.open(place, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        if not _is_safe(opened[0], True):
            raise PermissionError(place)
        opened.append(_enter(opened[0], user))
        opened.append(_enter(opened[1], name))
        _put_link(opened[2], os.path.basename(library), library)
    finally:
        for folder in opened:
            os.close(folder)
    return os.path.join(place, user, name, os.path.basename(library))


def preloadable(library: str) -> str | None:
    """LIBRARY, or a link to it with a path that LD_PRELOAD accepts; None if no such link can be made. The link is not removed,
    because programs that were started with it may still run."""
    if not any(c in library for c in AWKWARD):
        return library
    for place in (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp"):
        if not place.startswith("/") or any(c in place for c in AWKWARD):
            continue
        try:
            return _link_below(place, library)
        except OSError:
            continue
    return None


def make_folder(folder: Path) -> None:
    """mkdir -p with mode 0700. If root creates a directory in another user's directory, it gives it to that user."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() != 0:
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        above = os.stat("..", dir_fd=opened)
        if above.st_uid != 0 and os.fstat(opened).st_uid == 0 and not os.listdir(opened):
            by_sudo = os.environ.get("SUDO_UID") == str(above.st_uid) and os.environ.get("SUDO_GID", "").isdigit()
            os.fchown(opened, above.st_uid, int(os.environ["SUDO_GID"]) if by_sudo else above.st_gid)
    finally:
        os.close(opened)
