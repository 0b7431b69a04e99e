"""Zstandard, which Python has from 3.14 on."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError, compress
else:
    from backports.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError, compress

__all__ = ["CompressionParameter", "ZstdCompressor", "ZstdDecompressor", "ZstdError", "compress", "with_checksum"]


def with_checksum(data: bytes) -> bytes:
    """Compress; the frame ends with a checksum of its content."""
    return compress(data, options={CompressionParameter.checksum_flag: True})
