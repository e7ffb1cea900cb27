"""Converts screenshots to small PNG files with at most 256 colours."""

import base64
import struct
import zlib

from playwright.sync_api import Page

#: Runs in the browser: keeps the most frequent colours and maps the others to the nearest.
_REDUCE = """
async (source) => {
  const image = await createImageBitmap(await (await fetch(source)).blob());
  const { width, height } = image;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const kept = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([colour]) => colour);
  const channels = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const palette = kept.map(channels);
  const places = new Map(kept.map((colour, place) => [colour, place]));
  const nearest = (colour) => {
    const wanted = channels(colour);
    const far = (one) => one.reduce((sum, value, at) => sum + (value - wanted[at]) ** 2, 0);
    return palette.reduce((best, one, place) => (far(one) < far(palette[best]) ? place : best), 0);
  };
  for (const colour of counts.keys())
    if (!places.has(colour)) places.set(colour, nearest(colour));
  let text = "";
  for (const pixel of pixels) text += String.fromCharCode(places.get(pixel));
  return { width, height, palette: palette.flat(), text: btoa(text) };
}
"""


def small_png(page: Page, taken: bytes) -> bytes:
    """Return a picture as a PNG with a palette; `page` must not have a content security policy."""
    source = "data:image/png;base64," + base64.b64encode(taken).decode()
    found = page.evaluate(_REDUCE, source)
    width, height = found["width"], found["height"]
    places = base64.b64decode(found["text"])
    rows = b"".join(b"\0" + places[at : at + width] for at in range(0, len(places), width))
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", bytes(found["palette"]))
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)
