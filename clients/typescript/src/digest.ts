// SHA-256 in pieces: WebCrypto wants everything at once, and pages without TLS do not have it.

const primes: number[] = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p !== 0)) primes.push(n);

/** The first 32 bits behind the point. */
const fraction = (x: number) => ((x % 1) * 2 ** 32) | 0;
const constants = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
const rotate = (x: number, by: number) => (x >>> by) | (x << (32 - by));

/** Recognizes bytes that come in pieces, and keeps none of them. */
export class Digest {
  readonly #state = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(64);
  readonly #view = new DataView(this.#block.buffer);
  #length = 0;

  add(piece: Uint8Array): void {
    for (let at = 0; at < piece.length; ) {
      const used = this.#length % 64;
      const part = piece.subarray(at, at + 64 - used);
      this.#block.set(part, used);
      this.#length += part.length;
      at += part.length;
      if (used + part.length === 64) this.#mix();
    }
  }

  /** Ends it: nothing may be added afterwards. */
  hex(): string {
    const length = this.#length;
    const end = new Uint8Array(((length + 8) & -64) + 64 - length);
    end[0] = 0x80;
    new DataView(end.buffer).setBigUint64(end.length - 8, BigInt(length) * 8n);
    this.add(end);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  #mix(): void {
    const w = this.#words;
    for (let i = 0; i < 16; i++) w[i] = this.#view.getInt32(4 * i);
    for (let i = 16; i < 64; i++) {
      const x = at(w, i - 15);
      const y = at(w, i - 2);
      const before = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
      const after = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
      w[i] = at(w, i - 16) + before + at(w, i - 7) + after;
    }
    const s = this.#state;
    let a = at(s, 0);
    let b = at(s, 1);
    let c = at(s, 2);
    let d = at(s, 3);
    let e = at(s, 4);
    let f = at(s, 5);
    let g = at(s, 6);
    let h = at(s, 7);
    for (let i = 0; i < 64; i++) {
      const chosen = (e & f) ^ (~e & g);
      const one = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + chosen + at(constants, i) + at(w, i)) | 0;
      const two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (s[i] = at(s, i) + word));
  }
}

/** An element that is there. */
const at = (list: Int32Array, i: number) => list[i] ?? 0;
