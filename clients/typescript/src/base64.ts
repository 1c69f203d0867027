// Base64 and text with what every runtime has.

/** Encodes in standard base64 with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  return btoa(binaryOf(bytes));
}

/** Makes a text with one character a byte. Not every runtime has a decoder for that. */
export function binaryOf(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x2000) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 0x2000)); // in parts: arguments are limited
  }
  return binary;
}

/** Reads standard and URL-safe base64, padded or not. Throws on anything else. */
export function decodeBase64(value: string): Uint8Array {
  if (!/^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/.test(value)) throw new Error("not base64");
  const standard = value.replace(/=+$/, "").replace(/-/g, "+").replace(/_/g, "/");
  return bytesOfHeader(atob(standard));
}

/** The bytes of a header's value, which HTTP clients hand over one character a byte. */
export function bytesOfHeader(value: string): Uint8Array {
  const bytes = new Uint8Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0xff) return new TextEncoder().encode(value); // from one that has decoded it
    bytes[i] = code;
  }
  return bytes;
}

/** Text from UTF-8. Throws on anything else; a byte order mark stays. */
export function utf8(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}
