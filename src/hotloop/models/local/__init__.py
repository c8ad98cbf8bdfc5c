"""The embedded engine: llama.cpp in this process, behind the same seam as a remote service."""
