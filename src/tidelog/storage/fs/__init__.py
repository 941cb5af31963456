"""The only room that touches the operating system: files, directories, locks, atomic replacement."""

from tidelog.storage.fs.atomic import write_atomically
from tidelog.storage.fs.fork_guard import ForkGuard
from tidelog.storage.fs.interface import File, FileStat, FileSystem, Lock, MappedBytes
from tidelog.storage.fs.local import LOCAL, LocalFileSystem
from tidelog.storage.fs.processors import usable_processors
from tidelog.storage.fs.read_only import ReadOnlyFileSystem
from tidelog.storage.fs.whole_file import read_whole

__all__ = [
    "LOCAL",
    "File",
    "FileStat",
    "FileSystem",
    "ForkGuard",
    "LocalFileSystem",
    "Lock",
    "MappedBytes",
    "ReadOnlyFileSystem",
    "read_whole",
    "usable_processors",
    "write_atomically",
]
