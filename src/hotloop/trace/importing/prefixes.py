"""How much of a request its service has seen before, told from the messages that the spans have."""

from __future__ import annotations


def shared(before: str, text: str) -> int:
    """How many characters two texts have in common from their start."""
    least, most = 0, min(len(before), len(text))
    while least < most:
        half = (least + most + 1) // 2
        if before[least:half] == text[least:half]:
            least = half
        else:
            most = half - 1
    return least


def sizes(text: str, before: str) -> tuple[int, int]:
    """The bytes of a request, and how many of them had been in the one before."""
    return len(text.encode(errors="surrogatepass")), len(text[: shared(before, text)].encode(errors="surrogatepass"))
