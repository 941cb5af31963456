"""The only package that calls the operating system: files, directories, locks, atomic replacement."""

from tidelog.storage.fs.by_path import BY_PATH
from tidelog.storage.fs.descriptor_cache import DESCRIPTOR_CACHE, DescriptorCache
from tidelog.storage.fs.fork_guard import ForkGuard
from tidelog.storage.fs.interface import File, FileStat, FileSystem, Lock, MappedBytes
from tidelog.storage.fs.limits import raise_open_file_limit
from tidelog.storage.fs.local import LOCAL, LocalFileSystem
from tidelog.storage.fs.objects import UrlPath, is_url, path_of, require_disk
from tidelog.storage.fs.read_only import ReadOnlyFileSystem
from tidelog.storage.fs.run_all import run_all
from tidelog.storage.fs.whole_file import (
    TEMPORARY_SUFFIX,
    copy_bytes,
    end_sharing,
    read_small,
    read_whole,
    sync_whole,
    write_atomically,
    write_whole,
)

__all__ = [
    "BY_PATH",
    "DESCRIPTOR_CACHE",
    "LOCAL",
    "TEMPORARY_SUFFIX",
    "DescriptorCache",
    "File",
    "FileStat",
    "FileSystem",
    "ForkGuard",
    "LocalFileSystem",
    "Lock",
    "MappedBytes",
    "ReadOnlyFileSystem",
    "UrlPath",
    "copy_bytes",
    "end_sharing",
    "is_url",
    "path_of",
    "raise_open_file_limit",
    "read_small",
    "read_whole",
    "require_disk",
    "run_all",
    "sync_whole",
    "write_atomically",
    "write_whole",
]
