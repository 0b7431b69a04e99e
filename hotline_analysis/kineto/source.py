"""Read the text of a trace file: decompress by content, not by name, and recover the readable part of damaged data."""

from __future__ import annotations

import codecs
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from isal import isal_zlib

from hotline_analysis.errors import TraceFormatError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK_BYTES = 16 << 20
# Compressed bytes per step. The output is at most 16 MB: gzip expands a byte to at most a thousand, and zstd expands
# four bytes to a block of 128 KiB. So a small file that expands to gigabytes does not fill the memory.
_GZIP_CHUNK_BYTES = 1 << 14
_ZSTD_CHUNK_BYTES = 1 << 9
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


_DAMAGE: tuple[type[Exception], ...] = (isal_zlib.error, zlib.error, zstd.ZstdError)  # type: ignore[assignment]


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class TextSource:
    """The uncompressed text of one trace file, in chunks.

    Iterating yields text; invalid UTF-8 becomes U+FFFD. After the iteration, `problem` is a sentence on why reading
    stopped early, or None. `bytes_read` counts bytes of the file on disk, for progress bars.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        self.bytes_read = 0
        self.text_bytes = 0

    def __iter__(self) -> Iterator[str]:
        """Decode incrementally, so that a character at a chunk border is decoded correctly."""
        decoder: codecs.IncrementalDecoder | None = None
        for data in self._raw():
            if decoder is None:
                decoder = codecs.getincrementaldecoder(_ENCODINGS.get(data[:2], "utf-8"))("replace")
            self.text_bytes += len(data)
            if text := decoder.decode(data):
                yield text
        if decoder is not None and (text := decoder.decode(b"", final=True)):
            yield text

    def _raw(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                head = file.peek(4)[:4]
                if head.startswith(_GZIP_MAGIC):
                    yield from self._inflate(file, lambda: isal_zlib.decompressobj(wbits=31), _GZIP_CHUNK_BYTES)
                elif head.startswith(_ZSTD_MAGIC):
                    yield from self._inflate(file, zstd.ZstdDecompressor, _ZSTD_CHUNK_BYTES)
                else:
                    while data := file.read(CHUNK_BYTES):
                        self.bytes_read += len(data)
                        yield data
        except OSError as error:
            if not self.bytes_read:
                raise TraceFormatError(
                    f"cannot read {self.path}: {error.strerror or error}", hint="Check the path and the permissions."
                ) from error
            self.problem = f"reading stopped after {self.bytes_read:,} bytes: {error.strerror or error}"

    def _inflate(self, file: BinaryIO, start: Callable[[], _Decompressor], chunk_bytes: int) -> Iterator[bytes]:
        """Decompress all members. On damage, keep the data before the damage and set `problem`."""
        member = start()
        member_start = 0
        pending: list[bytes] = []
        pending_bytes = 0
        in_member = False
        while data := file.read(chunk_bytes):
            self.bytes_read += len(data)
            while data := data if in_member else data.lstrip(b"\0"):  # tape-style padding after a gzip member
                position = self.bytes_read - len(data)
                if member.eof:
                    member, member_start = start(), position
                try:
                    output = member.decompress(data)
                except _DAMAGE as error:
                    pending.append(self._salvage(file, start(), member_start, position, chunk_bytes))
                    yield b"".join(pending)
                    self.problem = f"the compressed data is damaged near byte {self.bytes_read:,} of the file ({error})"
                    return
                in_member = not member.eof
                data = member.unused_data if member.eof else b""
                pending.append(output)
                pending_bytes += len(output)
                if pending_bytes >= CHUNK_BYTES:
                    yield b"".join(pending)
                    pending, pending_bytes = [], 0
        if pending:
            yield b"".join(pending)
        if in_member:
            self.problem = "the compressed data ends too early"

    @staticmethod
    def _salvage(file: BinaryIO, member: _Decompressor, begin: int, at: int, chunk_bytes: int) -> bytes:
        """Return the data of a member between `at`, the last decoded position, and the damage, found byte by byte."""
        file.seek(begin)
        while begin < at:
            begin += len(data := file.read(min(at - begin, chunk_bytes)))
            member.decompress(data)
        pieces = []
        try:
            while data := file.read(1):
                pieces.append(member.decompress(data))
        except _DAMAGE:
            pass
        return b"".join(pieces)
